"""Failures of the field that need no kubelet: what cgroups were given, what was promised, what must be reported."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from toolkit.model.claims import NO_QUOTA, ExclusivePolicy, Isolation, SubjectKind
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import WorkloadKind

ONLINE = CpuSet.parse(Path("/sys/devices/system/cpu/online").read_text())
OWN = CpuSet.of([max(ONLINE)])
REST = ONLINE - OWN
SPIN, PULSE, ESCAPE, EXEC = (
    WorkloadKind.SPIN,
    WorkloadKind.PULSE,
    WorkloadKind.AFFINITY_ESCAPER,
    WorkloadKind.EXEC_STORM,
)


@dataclass(frozen=True)
class One:
    """A container: what it was given, what it was promised."""

    given: CpuSet
    promised: CpuSet | None
    isolation: Isolation = Isolation.HOST
    loads: tuple[WorkloadKind, ...] = (PULSE, ESCAPE)
    """Where tasks run is seen in every burst; only a quota takes a task that never rests."""
    kind: SubjectKind = SubjectKind.CONTAINER
    pod: str = ""
    limits: dict[str, int] = field(default_factory=dict)
    promises: dict[str, int] = field(default_factory=dict)


DB = One(given=OWN, promised=OWN, isolation=Isolation.CONTAINER, loads=(PULSE,))
CASES: dict[str, tuple[dict[str, object], dict[str, One], tuple[tuple[str, str], ...]]] = {
    # F1: it starts with the pod's wider set, and the reconciler believes it done.
    "starts-with-another-set": (
        {},
        {"db": One(given=ONLINE, promised=OWN, isolation=Isolation.CONTAINER)},
        (("applied", "db"), ("cpuset-containment", "db"), ("affinity-mask", "db")),
    ),
    # F4: the claim says one CPU, the cgroup is still the shared pool.
    "claimed-cpus-not-applied": (
        {},
        {"db": One(given=REST, promised=OWN, isolation=Isolation.CONTAINER)},
        (("applied", "db"), ("cpuset-containment", "db")),
    ),
    # F5, F7, F8: the pool was not shrunk when CPUs became exclusive.
    "pool-not-shrunk": (
        {},
        {"db": DB, "web": One(given=ONLINE, promised=REST)},
        (("applied", "web"), ("cpuset-containment", "web"), ("exclusive-cpus", "db")),
    ),
    # F5: the pool was not grown again. F11: a set that lost CPUs on its way.
    "pool-not-grown": ({}, {"web": One(given=REST, promised=ONLINE)}, (("applied", "web"),)),
    # F10: an update that had no effect on the quota.
    "quota-update-without-effect": (
        {},
        {"web": One(given=REST, promised=REST, limits={"quota_us": 80_000}, promises={"quota_us": 40_000})},
        (("applied", "web"),),
    ),
    # F31: a container that was restarted has lost its exclusive CPUs to the pool.
    "exclusive-set-moved": (
        {},
        {"db": One(given=REST, promised=OWN, isolation=Isolation.CONTAINER, loads=(EXEC,))},
        (("applied", "db"), ("cpuset-containment", "db")),
    ),
    # F42, F43: an app container and another pod's container own one CPU.
    "two-owners": (
        {},
        {"db": DB, "smf": One(given=OWN, promised=OWN, isolation=Isolation.CONTAINER, loads=(SPIN,))},
        (("exclusive-cpus", "db"), ("exclusive-cpus", "smf")),
    ),
    # F43: a sidecar of the pool runs on the CPU of its own pod's app container.
    "sidecar-shares-the-apps-cpu": (
        {},
        {
            "app": One(given=OWN, promised=OWN, isolation=Isolation.CONTAINER, loads=(PULSE,), pod="p"),
            "sidecar": One(given=ONLINE, promised=REST, pod="p"),
        },
        (("exclusive-cpus", "app"), ("cpuset-containment", "sidecar")),
    ),
    # F44: a program that is executed again and again in a container whose set is too wide.
    "exec-lands-on-a-foreign-cpu": (
        {},
        {"db": DB, "shell": One(given=ONLINE, promised=REST, loads=(EXEC, EXEC))},
        (("cpuset-containment", "shell"), ("exclusive-cpus", "db")),
    ),
    # F45: an ephemeral container may use the pool, not exclusive CPUs.
    "ephemeral-on-exclusive": (
        {},
        {"db": DB, "debug": One(given=ONLINE, promised=REST, kind=SubjectKind.EPHEMERAL)},
        (("exclusive-cpus", "db"),),
    ),
    # F47: a pause container that may run anywhere is a fault where nothing but the owner may run.
    "pause-anywhere": (
        {"policy": ExclusivePolicy.STRICT_ISOLATION},
        {"db": DB, "pause": One(given=ONLINE, promised=None, kind=SubjectKind.SANDBOX)},
        (("exclusive-cpus", "db"),),
    ),
    # F48: so is a runtime's helper.
    "conmon-anywhere": (
        {"policy": ExclusivePolicy.STRICT_ISOLATION},
        {"db": DB, "conmon": One(given=ONLINE, promised=None, kind=SubjectKind.HELPER)},
        (("exclusive-cpus", "db"),),
    ),
    # F51: a shared container on reserved CPUs, under strict reservation.
    "shared-on-reserved": (
        {"reserved_cpus": REST, "strict_reservation": True},
        {"web": One(given=REST, promised=REST)},
        (("reserved-cpus", "node"),),
    ),
    # F57, F62: no quota was turned into 1 %.
    "no-quota-became-one-percent": (
        {},
        {
            "db": One(
                given=OWN,
                promised=OWN,
                isolation=Isolation.CONTAINER,
                loads=(SPIN,),
                limits={"quota_us": 1000},
                promises={"quota_us": NO_QUOTA},
            )
        },
        (("applied", "db"), ("quota-free", "db")),
    ),
    # F60: the period became 10 ms, the quota stayed that of 100 ms.
    "quota-not-rescaled": (
        {},
        {
            "web": One(
                given=REST,
                promised=REST,
                loads=(SPIN,),
                limits={"quota_us": 50_000, "period_us": 10_000},
                promises={"quota_us": 5_000, "period_us": 10_000},
            )
        },
        (("applied", "web"),),
    ),
    # F58 as far as this kernel does it: another quota was imposed than was promised, and throttles below that.
    "quota-less-than-promised": (
        {},
        {
            "web": One(
                given=REST, promised=REST, loads=(SPIN,), limits={"quota_us": 20_000}, promises={"quota_us": 50_000}
            )
        },
        (("quota-throttling", "web"), ("applied", "web")),
    ),
    # F61: more than systemd's rounding to 1 % of a CPU; and just so much where systemd wrote nothing.
    "quota-rounded-too-far": (
        {},
        {
            name: One(
                given=REST, promised=REST, loads=(SPIN,), limits={"quota_us": found}, promises={"quota_us": 1_100}
            )
            for name, found in (("web", 3_000), ("job", 2_000))
        },
        (("applied", "web"), ("applied", "job")),
    ),
    # F63, F64: shares that were converted there and back.
    "shares-lost-in-conversion": (
        {},
        {"web": One(given=REST, promised=REST, loads=(PULSE,), limits={"shares": 998}, promises={"shares": 512})},
        (("applied", "web"),),
    ),
}
