"""The pytest plugin: options of the conformance suite, and fixtures for checks of one's own.

::

    def test_db_keeps_its_cpu(pinproof_sandbox, pinproof_observe):
        box = pinproof_sandbox({"db": "1", "web": "0"}, exclusive=["db"])
        pinproof_observe(box, seconds=1.0).require()

``require`` is red for what is undecided, too: ``failed == []`` alone is true of evidence that shows nothing.

Every fixture's name begins with ``pinproof_``: other plugins have a ``host`` of their own (testinfra), and pytest lets
one silently stand for the other.

Like the command line it stands on top of everything else, so it may import the session; it does so only when a fixture
is used, because pytest loads every installed plugin in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from validators.pytest_notes import ALLOW_UNFIT, JUDGED, NOTE, UNFIT, in_words_of_pytest, note

if TYPE_CHECKING:
    from toolkit.apply.live_sandbox import LiveSandbox
    from toolkit.model.claims import ClaimSet
    from toolkit.model.cpuset import CpuSet
    from toolkit.model.evidence import Evidence
    from toolkit.model.sandbox import Workload
    from toolkit.model.topology import Topology
    from toolkit.model.verdict import Outcome, Verdict
    from toolkit.session.engine.prepared import Prepared


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the conformance suite."""
    from toolkit.model.runtimes import CGROUPFS, RUNTIMES

    group = parser.getgroup("pinproof", "pinproof: proof of CPU and memory isolation")
    group.addoption("--pinproof-full", action="store_true", help="run the whole catalogue, not only its core")
    group.addoption("--pinproof-duration", type=float, metavar="S", help="seconds to observe each run")
    group.addoption("--pinproof-runtime", choices=tuple(RUNTIMES), default=CGROUPFS, help="what makes the containers")
    group.addoption(
        "--pinproof-on-live-node",
        action="store_true",
        help="run even if the node is in use, on CPUs that no workload owns",
    )
    group.addoption("--pinproof-runs", type=Path, metavar="DIR", help="keep the run directories here")
    group.addoption(
        ALLOW_UNFIT,
        action="store_true",
        help="skip tests where this machine cannot run them, though nothing be judged; without it that is an error",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Count what is judged, where that matters."""
    if not config.getoption(ALLOW_UNFIT) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Count(), "pinproof-count")


class _Count:
    """How many tests of a session judged something, and how many did not fit; workers of pytest-xdist send theirs."""

    def __init__(self) -> None:
        self._of = dict.fromkeys((UNFIT, JUDGED), 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take what one test noted, when it has ended."""
        if report.when == "teardown":
            for what in {what for name, what in report.user_properties if name == NOTE}:
                self._of[str(what)] += 1

    def _nothing_judged(self) -> bool:
        return self._of[UNFIT] > 0 and not self._of[JUDGED]

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """No session is green in which every test was skipped that should have judged this machine."""
        if self._nothing_judged() and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say so."""
        if self._nothing_judged():
            count = f"{self._of[UNFIT]} test{'' if self._of[UNFIT] == 1 else 's'}"
            line = f"pinproof: nothing was judged, {count} skipped for this machine (-rs says why)"
            terminalreporter.write_line(f"{line}: an error without {ALLOW_UNFIT}", red=True)


@dataclass(frozen=True)
class Box:
    """Containers that run, and what they were promised. ``live`` changes them, ``claims`` may be judged against."""

    live: LiveSandbox
    claims: ClaimSet


@dataclass(frozen=True)
class Judged:
    """What was seen and what the rules say about it."""

    evidence: Evidence
    verdicts: tuple[Verdict, ...]

    @property
    def outcome(self) -> Outcome:
        """The worst of the verdicts."""
        from toolkit.model.verdict import worst

        return worst(verdict.outcome for verdict in self.verdicts)

    @property
    def failed(self) -> list[str]:
        """What is broken, one line each."""
        return self._lines("failed")

    @property
    def undecided(self) -> list[str]:
        """What the evidence is not enough for, one line each."""
        return self._lines("undecided")

    def require(self) -> None:
        """Let the test fail unless the promises were kept and that was seen: none failed or is undecided, one passed.

        :raises AssertionError: with every verdict that failed or is undecided, a line each.
        """
        __tracebackhide__ = True
        lines = [f"failed: {line}" for line in self.failed] + [f"undecided: {line}" for line in self.undecided]
        if not lines and self.outcome.value != "passed":
            lines = ["nothing was judged: no verdict passed"]
        if lines:
            raise AssertionError("\n".join(lines))

    def _lines(self, outcome: str) -> list[str]:
        from toolkit.text.names import printable

        found = [verdict for verdict in self.verdicts if verdict.outcome.value == outcome]
        return [printable(f"{verdict.rule} {verdict.subject}: {verdict.reason}") for verdict in found]


@pytest.fixture(scope="session")
def pinproof_host(pytestconfig: pytest.Config) -> Topology:
    """This machine. Where it cannot run pinproof each test that asks for it is an error, with the reason; or is
    skipped, if ``--pinproof-allow-unfit`` allows it: a promise of which nothing looked whether it is kept is not green.
    """
    from toolkit.errors import HostUnsupportedError
    from toolkit.session.planning.guard import free_machine
    from toolkit.session.planning.preflight import require_run

    try:
        require_run(pytestconfig.getoption("pinproof_runtime"))
        return free_machine(insisted=pytestconfig.getoption("pinproof_on_live_node"))
    except HostUnsupportedError as error:
        reason = in_words_of_pytest(str(error))
        if pytestconfig.getoption(ALLOW_UNFIT):
            pytest.skip(reason)
        pytest.fail(f"nothing can be judged here: {reason} ({ALLOW_UNFIT} skips such tests)", pytrace=False)


@pytest.fixture(scope="session")
def pinproof_probes(pinproof_host: Topology) -> Iterator[Prepared]:
    """The probes, compiled and loaded once for all tests."""
    from toolkit.session.engine.prepared import prepared
    from toolkit.store import new_run_id

    with prepared(new_run_id("pytest")) as kept:
        yield kept


Sandbox = Callable[..., Box]


@pytest.fixture
def pinproof_sandbox(pinproof_host: Topology, pytestconfig: pytest.Config) -> Iterator[Sandbox]:
    """Make containers: ``pinproof_sandbox({"db": "1"}, exclusive=["db"], loads={"db": [Workload(…)]})``.

    Each container is a pod of its own with the given CPUs (a list such as ``"0-3"``, or a CpuSet) and keeps one user
    mode thread busy for each of them, unless ``loads`` says otherwise. All are gone when the test ends.
    """
    from toolkit.apply.sandbox import sandbox as apply
    from toolkit.model.claims import Claim, ClaimSet, Isolation
    from toolkit.model.cpuset import CpuSet
    from toolkit.model.sandbox import CgroupRequest, ContainerRequest, SandboxRequest, Workload, WorkloadKind
    from toolkit.store import new_run_id

    with ExitStack() as stack:

        def make(
            containers: Mapping[str, str | CpuSet],
            *,
            exclusive: Collection[str] = (),
            loads: Mapping[str, Collection[Workload]] | None = None,
        ) -> Box:
            cpus = {name: CpuSet.parse(one) if isinstance(one, str) else one for name, one in containers.items()}
            spin = {name: (Workload(kind=WorkloadKind.SPIN, threads=max(1, len(one))),) for name, one in cpus.items()}
            work = {**spin, **{name: tuple(load) for name, load in (loads or {}).items()}}
            request = SandboxRequest(
                containers=tuple(
                    ContainerRequest(claim=name, cgroup=CgroupRequest(path=name, cpus=one), workloads=work[name])
                    for name, one in cpus.items()
                )
            )
            runtime = pytestconfig.getoption("pinproof_runtime")
            live = stack.enter_context(apply(request, run_id=new_run_id("pytest"), runtime=runtime))
            claims = tuple(
                Claim(
                    name=container.claim,
                    pod=container.claim,
                    cgroup=container.cgroup,
                    cpus=cpus[container.claim],
                    isolation=Isolation.CONTAINER if container.claim in exclusive else Isolation.HOST,
                )
                for container in live.value.containers
            )
            return Box(live=live, claims=ClaimSet(claims=claims, pods_root=live.value.root))

        yield make


Observe = Callable[..., Judged]


@pytest.fixture
def pinproof_observe(pinproof_probes: Prepared, request: pytest.FixtureRequest) -> Observe:
    """Watch a box (or a ClaimSet of cgroups that exist) and judge: ``pinproof_observe(box, seconds=1.0)``."""
    from toolkit.session.engine.session import watched
    from toolkit.session.engine.window import Window
    from toolkit.store import new_run_id

    def watch(box: Box | ClaimSet, seconds: float = 1.0) -> Judged:
        claims = box.claims if isinstance(box, Box) else box
        window = Window(run_id=new_run_id("pytest"), duration_s=seconds, prepared=pinproof_probes)
        done = watched(claims, window, Path(window.run_id))
        note(request.node, JUDGED)
        return Judged(evidence=done.evidence, verdicts=done.verdicts)

    return watch
