"""The pytest side of the lab: the ``guest`` fixture, what is skipped and why, the console of failed tests.

``tests/lab/conftest.py`` takes these names over. A test asks for a guest and says which kinds it wants::

    @guests(GuestKind(topology=WIDE, kernel="6.12"))
    def test_something(guest): ...
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.lab.harness import compiled, flavours, image, snapshot
from tests.lab.harness.guest import Guest
from tests.lab.harness.settings import LabUnavailableError
from tests.lab.harness.snapshot import CGROUP_WORDS, GuestKind
from tests.lab.harness.topology import CATALOGUE

REQUIRE = "--require-lab"
T = TypeVar("T")
_guest = pytest.StashKey[Guest]()
_terminal: list[pytest.TerminalReporter] = []
"""Of the process that talks to people: with pytest-xdist none of the workers."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--require-lab``."""
    parser.addoption(REQUIRE, action="store_true", help="a lab that cannot run is an error, not a skip")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Find where failures are described at once."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(config, "workerinput"):
        _terminal[:] = [reporter]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Describe a failure when it is there: a person who ends a run of an hour early would never see it."""
    if not report.failed:
        return
    for terminal in _terminal:
        terminal.write_line(f"\n{report.nodeid} ({report.when}): {report.longreprtext}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark everything here as ``lab``; without having been asked for, guests are not started."""
    ours = [item for item in items if "/tests/lab/" in str(item.path)]
    asked = config.getoption(REQUIRE, default=False) or config.getoption("markexpr") or _named(config)
    for item in ours:
        item.add_marker(pytest.mark.lab)
        if not asked and "guest" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.skip(reason="guests start only when asked for: pytest tests/lab, or make lab"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Send tests that share a guest to the same worker: ``pytest -n 2 --dist loadgroup``.

    The groups of pytest-xdist 3.8 do nothing with pytest 9: it writes them into ids of tests that cannot be written any
    more, and every worker would start every guest.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler.loadscope import LoadScopeScheduling

    class OneWorkerForAGuest(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return OneWorkerForAGuest(config, log)


@functools.cache
def _kinds() -> tuple[str, ...]:
    """Every kind of guest that there can be, the longest names first: some begin as others do."""
    every = itertools.product(CATALOGUE, flavours.KERNELS, CGROUP_WORDS, flavours.BY_NAME)
    names = [str(GuestKind(topology=one, kernel=two, cgroup=three, flavour=four)) for one, two, three, four in every]
    return tuple(sorted(names, key=len, reverse=True))


def group_of(nodeid: str) -> str:
    """Return the file of a test, with the guest that it asks for."""
    file, _, test = nodeid.partition("::")
    words = f"-{test.partition('[')[2].rstrip(']')}-"
    return f"{file} {next((kind for kind in _kinds() if f'-{kind}-' in words), '')}"


def _named(config: pytest.Config) -> bool:
    return any("lab" in argument.replace("\\", "/").split("::")[0].split("/") for argument in config.args)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the guest's console said beside a failure."""
    report = yield
    running = item.stash.get(_guest, None)
    if running is not None and report.failed:
        report.sections.append((f"console of {running}", running.machine.console_tail() or "(silent)"))
    return report


def guests(*kinds: GuestKind) -> pytest.MarkDecorator:
    """Run a test on each of these kinds of guest."""
    return pytest.mark.parametrize("guest", kinds, indirect=True, ids=str, scope="module")


def _there(request: pytest.FixtureRequest, what: Callable[[], T]) -> T:
    try:
        return what()
    except LabUnavailableError as error:
        if request.config.getoption(REQUIRE, default=False):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def busybox(request: pytest.FixtureRequest) -> Path:
    """The guests' own busybox, which runs here, too."""
    return _there(request, image.current).busybox


@pytest.fixture(scope="module")
def guest(request: pytest.FixtureRequest) -> Iterator[Guest]:
    """A guest in its freshly booted state, with the current tree in it; shared by the tests of a module."""
    kind = getattr(request, "param", GuestKind())
    recipe = _there(request, lambda: snapshot.recipe(kind))
    with snapshot.running(kind) as started:
        assert recipe.release == started.sh("uname -r")
        started.put_project()
        compiled.give(started)
        yield started
        compiled.take(started)
        complaints = started.sh("dmesg | grep -E 'BUG:|Oops|WARNING: CPU|general protection|hung task' || true")
        assert not complaints, f"the guest's kernel complained:\n{complaints}"


@pytest.fixture(autouse=True)
def _guest_of_this_test(request: pytest.FixtureRequest) -> None:
    """Remember the guest for the report of a failure."""
    if "guest" in request.fixturenames:
        request.node.stash[_guest] = request.getfixturevalue("guest")
