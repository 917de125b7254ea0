"""The pytest side of the lab: the ``guest`` fixture, what is skipped and why, the console of failed tests.

``tests/lab/conftest.py`` takes these names over. A test asks for a guest and says which kinds it wants::

    @guests(GuestKind(topology=WIDE, kernel="6.12"))
    def test_something(guest): ...
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from tests.lab.harness import snapshot
from tests.lab.harness.guest import Guest
from tests.lab.harness.settings import LabUnavailableError
from tests.lab.harness.snapshot import GuestKind

REQUIRE = "--require-lab"
_guest = pytest.StashKey[Guest]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--require-lab``."""
    parser.addoption(REQUIRE, action="store_true", help="a lab that cannot run is an error, not a skip")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks for its groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark everything here as ``lab``; without having been asked for, guests are not started."""
    ours = [item for item in items if "/tests/lab/" in str(item.path)]
    asked = config.getoption(REQUIRE, default=False) or config.getoption("markexpr") or _named(config)
    for item in ours:
        item.add_marker(pytest.mark.lab)
        if config.pluginmanager.hasplugin("xdist"):
            # Tests that share a guest go to the same worker: pytest -n 2 --dist loadgroup.
            item.add_marker(pytest.mark.xdist_group(f"{item.path.stem}-{_kind(item)}"))
        if not asked and "guest" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.skip(reason="guests start only when asked for: pytest tests/lab, or make lab"))


def _kind(item: pytest.Item) -> object:
    return (
        item.callspec.params.get("guest") if isinstance(item, pytest.Function) and hasattr(item, "callspec") else None
    )


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


@pytest.fixture(scope="module")
def guest(request: pytest.FixtureRequest) -> Iterator[Guest]:
    """A guest in its freshly booted state, with the current tree in it; shared by the tests of a module."""
    kind = getattr(request, "param", GuestKind())
    try:
        recipe = snapshot.recipe(kind)
    except LabUnavailableError as error:
        if request.config.getoption(REQUIRE, default=False):
            raise
        pytest.skip(str(error))
    with snapshot.running(kind) as started:
        assert recipe.release == started.sh("uname -r")
        started.put_project()
        yield started
        complaints = started.sh("dmesg | grep -E 'BUG:|Oops|WARNING: CPU|general protection|hung task' || true")
        assert not complaints, f"the guest's kernel complained:\n{complaints}"


@pytest.fixture(autouse=True)
def _guest_of_this_test(request: pytest.FixtureRequest) -> None:
    """Remember the guest for the report of a failure."""
    if "guest" in request.fixturenames:
        request.node.stash[_guest] = request.getfixturevalue("guest")
