"""Hand-made readings of one quiet window on two CPUs: the tests spoil one of them at a time. No kernel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace

from probes.actions.decoder import ActionReading, Dropped
from probes.actions.records import Move
from probes.build import build
from probes.cgroups.decoder import BandwidthReading, FileReading, PressureReading
from probes.cgroups.lives import Account
from probes.cgroups.lives import Reading as CounterReading
from probes.interrupts.decoder import InterruptReading, SoftirqCounts
from probes.interrupts.records import IRQ_SOFT, IrqKey, IrqSums
from probes.masks.decoder import MaskReading
from probes.memory.decoder import MemoryReading
from probes.node.decoder import (
    CpuReading,
    OwnEdge,
    OwnReading,
    SystemEdge,
    SystemReading,
    ThreadReading,
)
from probes.node.system import SystemCounters
from probes.node.untraced import Untraced
from probes.options import ObserveOptions
from probes.readings import Frame, Moment, Reading, Readings, Watched
from probes.state_files.decoder import StateFileReading
from probes.switches import tally
from probes.switches.decoder import SwitchEdge, SwitchReading
from probes.switches.records import CpuState, IntruderKey, IntruderSums, Offence, OffenceKey
from probes.writes.decoder import WriteReading
from toolkit.host.cgroup_pressure import Pressure
from toolkit.host.cgroupfs import CpuStat
from toolkit.model.blind_spots import ScanGap
from toolkit.model.claims import Claim, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import CgroupFiles, Environment, Evidence, HotplugEvent, ThreadMask, UsageBin

ONLINE, SECOND = CpuSet.parse("0-1"), 1_000_000_000
START, END = 5 * SECOND, 6 * SECOND
DB, LOST, WEB = 3, 4, 9
"""Idents: of the claim, of one that was removed while the window was open, of one that is not of this window."""
CLAIM = Claim(name="db", cgroup="/pods/db", cpus=CpuSet.parse("1"), isolation=Isolation.CONTAINER)

FRAME = Frame(
    number=7,
    started_at="2026-01-01T00:00:00.000+00:00",
    first=Moment(at_ns=START, turn_ns=10, online=ONLINE),
    last=Moment(at_ns=END, turn_ns=20, online=ONLINE),
    closed=True,
    environment=Environment(kernel="6.18", cgroup="v2", cmdline="", cpus_online=ONLINE),
    options=ObserveOptions(),
    subjects=(Watched(claim=CLAIM, ident=DB, cpus=CpuSet.parse("1")),),
    names={DB: "db", WEB: "web"},
    sampled=ONLINE,
    watched=CpuSet.parse("1"),
)


def state(**values: int) -> CpuState:
    """Return a CPU's counters; what is not given is 0."""
    return CpuState(**{field.name: values.get(field.name, 0) for field in fields(CpuState)})


def counters(at_ns: int, usage_ns: int) -> CounterReading:
    """Return one reading of a cgroup's counters."""
    stat = CpuStat(
        at_ns=at_ns, usage_ns=usage_ns, nr_periods=0, nr_throttled=0, throttled_ns=0, nr_bursts=0, burst_ns=0
    )
    return CounterReading(stat=stat, ids=(1, 1))


SWITCHES = SwitchReading(
    first=SwitchEdge(states=(state(), state(lost_events=2, map_full=3)), lost_before=2, full_before=3),
    last=SwitchEdge(
        states=(
            state(closed_window=7, closed_judged=600),
            state(closed_window=7, closed_judged=400, lost_events=2, map_full=3, standstill_ns=8),
        )
    ),
    rows={DB: [tally.row({}), tally.row({"switches": 40, "ns": 9_000, "out_switches": 1, "out_ns": 50})]},
    cuts={(DB, 1): 2, (WEB, 0): 5},
    offences={OffenceKey(0, DB, 70, 0): Offence(1, 50, 50, START + 5, START + 55, START + 55, 70, 0, b"db\0")},
    intruders={
        IntruderKey(0, 1, 80, 0, 11): IntruderSums(1, 30, 30, START, START + 30, START + 30, 80, 0, 2, 0, b"cron\0")
    },
    cgroups={11: "/system/cron"},
    bins=(UsageBin(claim="db", start_at_ns=0, length_ns=SECOND, usage_ns=9_000),),
    slot_gap=(100_000_000, START),
    observer_pid=1,
)
SYSTEM = SystemReading(
    first=SystemEdge(
        before=SystemCounters(context_switches=100, steal_ns=1, steal_by_cpu_ns={0: 1, 1: 0}),
        after=SystemCounters(context_switches=102, steal_ns=2, steal_by_cpu_ns={0: 2, 1: 0}),
    ),
    last=SystemEdge(
        before=SystemCounters(context_switches=1_100, steal_ns=5, steal_by_cpu_ns={0: 4, 1: 1}),
        after=SystemCounters(context_switches=1_105, steal_ns=6, steal_by_cpu_ns={0: 5, 1: 1, 2: 9}),
    ),
)
THREADS = ThreadReading(
    first={"db": {70: 10}}, last={"db": {70: 25, 71: 4}}, untraced=Untraced(switches=0, skew=1, threads=())
)
BEFORE = CgroupFiles(cgroup="/pods/db", at_ns=START, quota_us=50_000, period_us=100_000)
FILES = FileReading(before={"/pods/db": BEFORE}, after=(replace(BEFORE, at_ns=END),), readings=1, gap_ns=SECOND)
BANDWIDTH = BandwidthReading(
    first_at_ns=START - 100,
    last_at_ns=END - 200,
    accounts={"/pods/db": Account(base=counters(START, 500), last=counters(END, 9_700), ledger_ns=9_000)},
)
PRESSURE = PressureReading(
    first={"/pods/db": Pressure(at_ns=START - 300, inode=5, some_us=1_000, full_us=900)},
    last={"/pods/db": Pressure(at_ns=END - 400, inode=5, some_us=1_700, full_us=1_500)},
)
MASK = ThreadMask(
    claim="db",
    pid=70,
    tid=70,
    comm="db",
    cpus_allowed=CpuSet.parse("1"),
    mems_allowed=CpuSet.parse("0"),
    times_seen=5,
    first_at_ns=0,
    last_at_ns=9,
)
MASKS = MaskReading(
    masks=(MASK,), scans=5, gaps=(ScanGap(claim="db", scans=5, longest_ns=200, at_ns=0, allowed_ns=500),)
)
INTERRUPTS = InterruptReading(
    first=SoftirqCounts(before={0: 0, 1: 10}, after={0: 0, 1: 10}),
    last=SoftirqCounts(before={0: 5, 1: 14}, after={0: 5, 1: 14}),
    rows=((IrqKey(source=0, window=7, cpu=1, vector=1, kind=IRQ_SOFT), IrqSums(4, 400, 150, b"")),),
    cpus=CpuSet.parse("1"),
)
MOVE = Move(0, 7, START + 3, 1, 1, 70, 70, 0, DB, 0, 1, 0, 0, b"sh\0", b"db\0", b"/pods/db\0")
ACTIONS = ActionReading(
    first=Dropped(moves=5, affinities=1), last=Dropped(moves=5, affinities=1), moves=(MOVE,), hierarchies={0: "v2"}
)
WRITES = WriteReading(writes=(), cgroups={1: "/pods/db"})
CPUS = CpuReading(events=(HotplugEvent(cpu=1, online=True, at_ns=4),))
OWN = OwnReading(first=OwnEdge(process_ns=10, bpf_ns=7), last=OwnEdge(process_ns=30, bpf_ns=7))
QUIET: tuple[Reading, ...] = (
    OWN,
    MemoryReading(),
    MASKS,
    CPUS,
    ACTIONS,
    WRITES,
    StateFileReading(writes=()),
    FILES,
    THREADS,
    PRESSURE,
    BANDWIDTH,
    INTERRUPTS,
    SYSTEM,
    SWITCHES,
)


def but(*changed: Reading) -> tuple[Reading, ...]:
    """Return the quiet window with these readings in the place of those of their kind."""
    kinds = {type(reading): reading for reading in changed}
    return tuple(kinds.get(type(reading), reading) for reading in QUIET)


def built(frame: Frame, readings: Iterable[Reading]) -> Evidence:
    """Return the evidence of these readings."""
    return build(Readings(frame, tuple(readings)))
