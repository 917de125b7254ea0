"""How many escapes the canaries made by the kernel's count: between the two readings that lie inside the window."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from probes.blindness import Blindness
from probes.observer import Observer
from probes.options import ObserveOptions
from probes.readings import Frame, Moment, Readings
from probes.subjects import ALL_CPUS, Subject
from toolkit.errors import InputError
from toolkit.host.cgroup_mounts import Hierarchy, Mode
from toolkit.model.blind_spots import Witness
from toolkit.model.claims import Claim, ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Environment
from toolkit.session.engine.canary import (
    CLEAN,
    NOT_RUNNING,
    POSITIVE,
    CanaryPair,
    fit,
    housekeeping_cpu,
    planted_between,
)
from toolkit.session.engine.observe import Observation

PIDS = {POSITIVE: 11, CLEAN: 12}
ENVIRONMENT = Environment(kernel="6.1", cgroup="v2", cmdline="", cpus_online=CpuSet.of([0, 1]))


class Host:
    """A tree with two canaries whose switches the test counts up."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name, pid in PIDS.items():
            group = root / "sys/fs/cgroup" / name
            group.mkdir(parents=True)
            (group / "cgroup.procs").write_text(f"{pid}\n")
            (root / f"proc/{pid}").mkdir(parents=True)
        self.switches, self.state, self.cpus = 100, "S (sleeping)", "0"
        self.run(0)

    def run(self, switches: int) -> None:
        """Let each canary be switched out some more."""
        self.switches += switches
        text = f"Name:\tpython\nState:\t{self.state}\nCpus_allowed_list:\t{self.cpus}\n"
        text += f"voluntary_ctxt_switches:\t{self.switches}\nnonvoluntary_ctxt_switches:\t3\n"
        for pid in PIDS.values():
            (self.root / f"proc/{pid}/status").write_text(text)

    def pair(self) -> CanaryPair:
        """Return the canaries."""
        claims = cast("Any", tuple(Claim(name=name, cgroup=f"/{name}", cpus=CpuSet.of([0])) for name in PIDS))
        unified = self.root / "sys/fs/cgroup"
        hierarchy = Hierarchy(root=self.root, mode=Mode.V2, unified=unified)
        places = dict.fromkeys(PIDS, CpuSet.of([0]))
        return CanaryPair(cpu=0, online=CpuSet.of([0]), claims=claims, hierarchy=hierarchy, places=places)


class Slow:
    """An observer whose windows begin and end between other work, during which the canaries run on."""

    BEFORE, GATHERING = 10, 1000
    window = None
    subjects: ClassVar[dict[str, Any]] = {}
    ledger = SimpleNamespace(online=lambda: CpuSet.of([0]))

    def __init__(self, host: Host) -> None:
        self.host = host
        self.blindness = Blindness()

    def add_claim(self, claim: Claim) -> None:
        """Watch nothing."""

    def blind(self, what: str, *witnesses: Witness, start_ns: int) -> None:
        """Note it."""
        self.blindness.note(what, witnesses, start_ns, None)

    def sighted(self, what: str) -> None:
        """It is seen again."""
        self.blindness.end(what, time.monotonic_ns())

    def open_window(self) -> None:
        """Prepare, then begin: what ran before is not in the window."""
        self.host.run(self.BEFORE)

    def end_window(self) -> Readings:
        """End the window, then gather what was seen in it."""
        self.host.run(self.GATHERING)
        frame = Frame(
            number=1,
            started_at="",
            first=Moment(at_ns=1),
            last=Moment(at_ns=2),
            closed=True,
            environment=ENVIRONMENT,
            options=ObserveOptions(),
            names={},
        )
        return Readings(frame, ())

    read_so_far = end_window

    def poll(self, timeout_s: float) -> tuple[()]:
        """Report nothing."""
        return ()


@pytest.mark.parametrize("end", ["close", "snapshot"])
def test_only_escapes_inside_the_window_are_planted(tmp_path: Path, end: str) -> None:
    """What the canaries do while a window is prepared or evidence is gathered cannot have been seen: it is not asked
    for.
    """
    host = Host(tmp_path)
    opened = Observation(cast("Observer", Slow(host)), host.pair(), tmp_path, ENVIRONMENT, lambda _violation: None)
    host.run(42)

    evidence = opened.snapshot() if end == "snapshot" else opened.close().evidence

    assert [canary.planted_switches for canary in evidence.canaries] == [42, 42]


@pytest.mark.parametrize("gone", ["killed", "unread"])
def test_a_canary_that_ended_planted_nothing_that_counts(tmp_path: Path, gone: str) -> None:
    """Its cgroup is empty, or /proc has nothing of it: neither is a count of 0, nor less than none."""
    host = Host(tmp_path)
    opened = Observation(cast("Observer", Slow(host)), host.pair(), tmp_path, ENVIRONMENT, lambda _violation: None)
    host.run(42)
    if gone == "killed":
        (tmp_path / "sys/fs/cgroup" / POSITIVE / "cgroup.procs").write_text("")
    else:
        (tmp_path / f"proc/{PIDS[POSITIVE]}/status").unlink()

    evidence = opened.close().evidence

    assert [canary.planted_switches for canary in evidence.canaries] == [NOT_RUNNING, 42]


@pytest.mark.parametrize("end", ["close", "snapshot"])
def test_a_canary_that_is_moved_while_the_window_ends_planted_nothing_that_counts(tmp_path: Path, end: str) -> None:
    """It was where it was put when it was read, and may have been elsewhere before the window ended."""
    host = Host(tmp_path)
    observer = Slow(host)
    opened = Observation(cast("Observer", observer), host.pair(), tmp_path, ENVIRONMENT, lambda _violation: None)

    def moved() -> Readings:
        host.cpus = "1"
        return Slow.end_window(observer)

    observer.end_window = observer.read_so_far = moved  # type: ignore[method-assign]
    evidence = opened.snapshot() if end == "snapshot" else opened.close().evidence

    assert [canary.planted_switches for canary in evidence.canaries] == [NOT_RUNNING, NOT_RUNNING]


def test_a_canary_that_is_read_again_is_none_that_ran_through() -> None:
    """Of one that could not be read when the window opened it is not known how often it was switched in it."""
    assert planted_between({POSITIVE: None, CLEAN: 7}, {POSITIVE: 9, CLEAN: 9}) == {POSITIVE: NOT_RUNNING, CLEAN: 2}
    assert planted_between({POSITIVE: 9}, {POSITIVE: 7}) == {POSITIVE: NOT_RUNNING}


@pytest.mark.parametrize(
    ("state", "cpus", "fits"),
    [
        ("S (sleeping)", "0", True),
        ("R (running)", "0", True),
        ("T (stopped)", "0", False),
        ("Z (zombie)", "0", False),
        ("S (sleeping)", "0-3", False),
        ("S (sleeping)", "1", False),
    ],
)
def test_which_canaries_can_be_believed(tmp_path: Path, state: str, cpus: str, fits: bool) -> None:
    """Those that run where they were put: a CPU that went and came back leaves a task with the affinity of all."""
    host = Host(tmp_path)
    host.state, host.cpus = state, cpus
    host.run(0)
    assert fit(host.pair(), tmp_path) is fits


def test_a_canary_that_is_gone_is_not_believed(tmp_path: Path) -> None:
    """Nor one of which /proc says nothing."""
    host = Host(tmp_path)
    (tmp_path / f"proc/{PIDS[CLEAN]}/status").unlink()
    assert not fit(host.pair(), tmp_path)
    host.run(0)
    (tmp_path / "sys/fs/cgroup" / POSITIVE / "cgroup.procs").write_text("")
    assert not fit(host.pair(), tmp_path)


def test_a_full_disk_of_run_costs_the_controls_and_not_the_watch(tmp_path: Path) -> None:
    """New canaries need a journal: until there are some everything is doubtful, and then it is not any more."""
    host = Host(tmp_path)
    observer = Slow(host)
    failing = [OSError(28, "No space left on device"), InputError("/run", "No space left on device")]

    def renew() -> tuple[CanaryPair, Environment]:
        if failing:
            raise failing.pop()
        host.state = "S (sleeping)"
        host.run(0)
        return host.pair(), ENVIRONMENT

    opened = Observation(
        cast("Observer", observer), host.pair(), tmp_path, ENVIRONMENT, lambda _violation: None, renew=renew
    )
    host.state = "T (stopped)"
    host.run(0)
    for blind in (1, 1, 0):
        opened.close()
        opened.open()
        assert len(observer.blindness.within(time.monotonic_ns(), time.monotonic_ns())) == blind


def test_new_canaries_keep_off_the_cpus_that_claims_own_now() -> None:
    """A claim that has grown owns more than it was promised when it was added."""
    claim = Claim(name="db", cgroup="/db", cpus=CpuSet.of([1]), isolation=Isolation.CONTAINER)
    db = Subject(claim=claim, cgroup_id=1, slot=0, ident=1, cpus=CpuSet.of([0, 1]), since_ns=0)
    free = Subject(claim=Claim(name="x", cgroup="/x"), cgroup_id=2, slot=1, ident=2, cpus=ALL_CPUS, since_ns=0)

    claims = ClaimSet(claims=(db.now, free.now))
    assert housekeeping_cpu(claims, CpuSet.of([0, 1, 2])) == 2
    assert free.now.cpus is None
