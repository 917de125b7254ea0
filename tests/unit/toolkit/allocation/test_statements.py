"""The table "statement → code → test" of the allocation's README: what it names exists; tests of its last rows."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.unit.toolkit.allocation.node_builder import GIB, both, config, machine, pod
from tests.unit.toolkit.allocation.static_policy import INIT, SMT8, admit, container, policy
from tests.unit.toolkit.allocation.static_policy import pod as simple_pod
from toolkit.allocation.machine import Machine
from toolkit.allocation.planner import plan
from toolkit.allocation.topology.hint import TopologyHint
from toolkit.allocation.topology.manager import TopologyManager
from toolkit.errors import InputError
from toolkit.kubernetes.node_config import read_settings
from toolkit.model.plan import PodPlan

ROOT = Path(__file__).parents[4]
CODE = ROOT / "toolkit/allocation"
TESTS = Path(__file__).parent
HEAD = "| ids | statement | source | code | test |"
LIST = ROOT / "docs/statements.md"
ID = re.compile(r"[A-Z]{3}-\d+")
PLACE = re.compile(r"`([^`]+)`")


class Row(NamedTuple):
    """One statement: its ids, its source, and the names in backticks of its code and of its tests."""

    ids: tuple[str, ...]
    statement: str
    source: str
    code: tuple[str, ...]
    tests: tuple[str, ...]


def rows() -> list[Row]:
    """Return the table."""
    _, _, table = (CODE / "README.md").read_text(encoding="utf-8").partition(f"{HEAD}\n|---|---|---|---|---|\n")
    lines = table.partition("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    assert all(len(row) == 5 for row in cells)
    return [Row(tuple(ID.findall(row[0])), *row[1:3], tuple(PLACE.findall(row[3])), _named(row[4])) for row in cells]


def _named(cell: str) -> tuple[str, ...]:
    """Return the tests of a cell; ``::test_x`` is of the file named before; recordings are of a test of their own."""
    found: list[str] = ["test_simulate.py::test_every_recorded_scenario"] if "recordings" in cell else []
    for name in PLACE.findall(cell):
        file, sign, test = name.partition("::")
        found.append(f"{found[-1].partition('::')[0]}{sign}{test}" if file in ("", "…") else name)
    return tuple(found)


@functools.cache
def functions(path: Path) -> dict[str, ast.FunctionDef]:
    """Return a file's functions by name."""
    return {node.name: node for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.FunctionDef)}


def may_skip(function: ast.FunctionDef) -> bool:
    """Say whether a test can skip: a mark, a call, or the fixture of a folder that not every checkout has."""
    names = {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
    return bool(names & {"skip", "skipif", "importorskip"}) or "shared" in {a.arg for a in function.args.args}


def found_file(name: str) -> Path | None:
    """Return the file of a test's name."""
    return next(
        (
            base / name
            for base in (TESTS, TESTS.parent / "model", TESTS.parent / "kubernetes", ROOT)
            if (base / name).is_file()
        ),
        None,
    )


def always(row: Row) -> bool:
    """Say whether a row has a test that no machine skips."""
    for file, _, test in (name.partition("::") for name in row.tests):
        path = found_file(file)
        held = functions(path) if path else {}
        if any(not may_skip(held[name]) for name in ([test] if test else held) if name in held):
            return True
    return False


def missing(row: Row) -> list[str]:
    """Return what a row names and the tree does not have."""
    found = [place for place in row.code if not any((base / place).exists() for base in (CODE, CODE.parent, ROOT))]
    for name in row.tests:
        file, _, test = name.partition("::")
        path = found_file(file)
        if path is None or (test and test not in functions(path)):
            found.append(name)
    return found


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.statement[:40])
def test_every_row_names_code_and_tests_that_exist(row: Row) -> None:
    """No statement without code, none without a test, none with a name of yesterday."""
    assert row.statement
    assert row.source
    assert row.code
    assert row.tests
    assert missing(row) == []
    assert always(row)


def test_a_row_that_some_machine_skips_is_noticed(tmp_path: Path) -> None:
    """A row whose only test needs a folder beside the checkout, or may skip, is held by nothing in CI."""
    path = tmp_path / "test_x.py"
    path.write_text(
        "def test_a(shared): pass\n@pytest.mark.skipif(1, reason='')\ndef test_b(): pass\n"
        "def test_c(): pytest.skip('')\ndef test_d(): pass\n"
    )
    for test, held in (("test_a", False), ("test_b", False), ("test_c", False), ("test_d", True)):
        assert always(Row((), "x", "x", (), (f"{path}::{test}",))) is held


def test_a_row_of_yesterday_is_noticed() -> None:
    """The check fails for a file, and for a test, that does not exist."""
    row = Row((), "x", "x", ("cpu/gone.py",), ("test_planner.py::test_gone", "test_gone.py"))
    assert missing(row) == ["cpu/gone.py", "test_planner.py::test_gone", "test_gone.py"]


def listed() -> dict[str, str]:
    """Return the list of statements: id and document."""
    found = {}
    for line in LIST.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == 3 and ID.fullmatch(cells[0]):
            assert cells[0] not in found
            assert cells[2].endswith(".")
            found[cells[0]] = cells[1]
    return found


def test_every_statement_has_a_row() -> None:
    """No statement of the specification is without code and test, and no row has an id of none."""
    told = [name for row in rows() for name in row.ids]

    assert sorted(told) == sorted(set(told))
    assert set(told) == set(listed())


def test_every_document_has_statements() -> None:
    """The five documents that are validated."""
    assert set(listed().values()) == {"NRM", "Memory", "KEP-5526", "CPU management", "KEP-4540"}


@pytest.mark.parametrize(("amount", "reserved"), [("1500m", "0,4"), ("2500m", "0-1,4"), ("4", "0-1,4-5")])
def test_a_reservation_by_amount_takes_whole_cpus_in_order_of_core_id(amount: str, reserved: str) -> None:
    """NRM: "in integer quantity, … in ascending order by physical core ID": of CPUs i and i + 4 a core, not 0, 1, 2."""
    settings = read_settings({"cpuManagerPolicy": "static", "kubeReserved": {"cpu": amount}}, "kubelet")

    assert str(plan([], settings, SMT8).reserved_cpus) == reserved


def test_containers_that_exceed_their_budget_are_refused() -> None:
    """KEP-5526: the sum of the containers' requests must not exceed the pod's."""
    with pytest.raises(InputError, match="a budget that covers the containers"):
        pod("db", both("3"), both("2"), resources=both("4", "4Gi"))
    assert pod("db", both("2"), both("2"), resources=both("4", "4Gi")).pod_level


def of_pod(budget: str, options: dict[str, str]) -> PodPlan:
    """Plan a pod with a budget, under pod scope: one container owns two CPUs, the other shares the rest."""
    gates = {"PodLevelResources": True, "PodLevelResourceManagers": True, "CPUManagerPolicyAlphaOptions": True}
    fields = {"topologyManagerPolicy": "best-effort", "topologyManagerScope": "pod", "featureGates": gates}
    body = pod("db", both("2"), {}, resources=both(budget, "4Gi"))
    return plan([body], config(cpuManagerPolicyOptions=options, **fields), machine()).pods[0]


@pytest.mark.parametrize(("value", "on_each_node"), [("true", [5, 5]), ("false", [2, 8])])
def test_distribution_is_of_the_whole_pods_cpus(value: str, on_each_node: list[int]) -> None:
    """KEP-5526: "the total number of pod level CPUs will be evenly distributed"; else a node is filled first."""
    cpus = of_pod("10", {"distribute-cpus-across-numa": value}).cpus

    assert cpus is not None
    assert sorted((cpus.mask & mask).bit_count() for mask in machine().numa_masks.values()) == on_each_node


@pytest.mark.parametrize(("budget", "reason"), [("8", ""), ("7", "SMTAlignmentError")])
def test_whole_cores_are_of_the_whole_pod(budget: str, reason: str) -> None:
    """KEP-5526: full-pcpus-only asks whole cores of the pod's budget, and refuses a budget that is none."""
    assert of_pod(budget, {"full-pcpus-only": "true"}).reason == reason


def test_an_init_containers_end_takes_nothing_from_its_successor() -> None:
    """002: on release, CPUs that another container of the pod still uses do not return to the shared pool."""
    static = policy()
    state = admit(static, static.start(None), simple_pod("a", container("i", "4", INIT), container("c", "2")))
    left = static.release(state, "a", "i")

    assert left.cpus_of("a", "c") == state.cpus_of("a", "c")
    assert left.cpus_of("a", "c").isdisjoint(left.default)
    assert state.cpus_of("a", "i") - state.cpus_of("a", "c") <= left.default


def test_conflicting_hints_are_not_decided_in_the_cpus_favour() -> None:
    """002: the CPU's wish does not win a conflict; best-effort admits with what both have in common, if anything."""
    manager = TopologyManager("best-effort", "container", {}, machine())
    hints = ({"cpu": [TopologyHint(1, True)]}, {"nic": [TopologyHint(2, True)]})

    hint, admitted = manager.merge(hints)

    assert admitted
    assert (hint.numa, hint.preferred) == (3, False)


def test_a_conflict_is_decided_by_what_both_can_have() -> None:
    """002's own example: the CPU would prefer node 1 and can do with both, the device is on node 0."""
    manager = TopologyManager("best-effort", "container", {}, machine())

    hint, admitted = manager.merge(
        ({"cpu": [TopologyHint(2, True), TopologyHint(3, False)]}, {"nic": [TopologyHint(1, True)]})
    )

    assert admitted
    assert hint == TopologyHint(1, False)


@pytest.mark.parametrize(
    ("strict", "text"),
    [
        ("false", '{"policyName":"static","defaultCpuSet":"0-63","checksum":1058907510}'),
        ("true", '{"policyName":"static","defaultCpuSet":"2-15,17-31,34-47,49-63","checksum":4141502832}'),
    ],
)
def test_the_state_files_of_the_proposal_are_written_byte_for_byte(strict: str, text: str) -> None:
    """STR-1, STR-2: the two files that KEP-4540 shows, with their checksums."""
    rows = [[cpu, cpu % 32, cpu % 32 // 16, cpu % 32 // 16, None] for cpu in range(64)]
    shape = Machine.from_vector({"cpus": rows, "numa": [{"id": node, "memory": GIB} for node in range(2)]})
    options = {"strict-cpu-reservation": strict}

    made = plan([], config(reservedSystemCPUs="0,32,1,33,16,48", cpuManagerPolicyOptions=options), shape)

    assert made.states["cpu_manager_state"] == text


@pytest.mark.parametrize("name", ["numMinSharedCPUs", "MinSharedCPUs"])
def test_min_shared_cpus_is_no_option(name: str) -> None:
    """KEP-4540 names it as an alternative that was not taken: no kubelet starts with it."""
    with pytest.raises(InputError, match=name):
        plan([], config(cpuManagerPolicyOptions={"strict-cpu-reservation": "true", name: "4"}), machine())
