"""Policy options: gates before values, values as Go reads them, pairs that exclude each other, verbatim messages."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from toolkit.allocation.cpu import options
from toolkit.allocation.cpu.manager import NonePolicy, StaticPolicy, make_policy
from toolkit.allocation.cpu.options.option import CpuPolicyError
from toolkit.allocation.cpu.options.parse import check_machine, parse_options
from toolkit.allocation.cpu.options.registry import OPTIONS
from toolkit.allocation.cpu.options.switched_on import CpuPolicyOptions
from toolkit.allocation.machine import Machine
from toolkit.kubernetes.releases import MODEL, Stage
from toolkit.kubernetes.releases import OPTIONS as HISTORY
from toolkit.model.cpuset import CpuSet

FOUR = Machine.from_vector({"cpus": [[cpu, cpu, 0, 0, None] for cpu in range(4)], "numa": []})
TWO_SOCKETS_ONE_NODE = Machine.from_vector({"cpus": [[cpu, cpu, cpu // 2, 0, None] for cpu in range(4)], "numa": []})


def test_no_options() -> None:
    """Nothing configured switches nothing on."""
    assert parse_options({}) == CpuPolicyOptions()


@pytest.mark.parametrize("value", ["1", "t", "T", "TRUE", "true", "True"])
def test_true_values(value: str) -> None:
    """The values that Go takes for true switch the option on."""
    assert parse_options({"full-pcpus-only": value}).names == ("full-pcpus-only",)


@pytest.mark.parametrize("value", ["", "yes", "tRUE", " true"])
def test_other_values(value: str) -> None:
    """Anything else is refused with strconv's words."""
    message = f'bad value for option "full-pcpus-only": strconv.ParseBool: parsing "{value}": invalid syntax'
    with pytest.raises(CpuPolicyError) as error:
        parse_options({"full-pcpus-only": value})
    assert str(error.value) == message


def test_unknown_option() -> None:
    """An option that does not exist is refused before any value is read."""
    with pytest.raises(CpuPolicyError, match=r'^unknown CPU Manager Policy option: "no-such"$'):
        parse_options({"no-such": "true"})


@pytest.mark.parametrize("value", ["true", "false", "nonsense"])
def test_alpha_options_need_their_gate(value: str) -> None:
    """An alpha option needs its gate even to be switched off, and before its value is looked at."""
    for name in ("align-by-socket", "distribute-cpus-across-cores"):
        with pytest.raises(CpuPolicyError) as error:
            parse_options({name: value})
        assert str(error.value) == f'CPU Manager Policy Alpha-level Options not enabled, but option "{name}" provided'


def test_beta_options_need_their_gate() -> None:
    """The beta gate is on by default and can be switched off; stable options need none."""
    assert "distribute-cpus-across-numa" in parse_options({"distribute-cpus-across-numa": "true"})
    with pytest.raises(CpuPolicyError, match="Beta-level Options not enabled"):
        parse_options({"distribute-cpus-across-numa": "true"}, beta=False)
    stable = {name: "true" for name, option in OPTIONS.items() if HISTORY[name].of(MODEL) is Stage.GA}
    assert len(parse_options(stable, beta=False).names) == 3


FORBIDDEN = {
    frozenset(("distribute-cpus-across-cores", "full-pcpus-only")),
    frozenset(("distribute-cpus-across-cores", "distribute-cpus-across-numa")),
    frozenset(("distribute-cpus-across-cores", "prefer-align-cpus-by-uncorecache")),
    frozenset(("distribute-cpus-across-numa", "prefer-align-cpus-by-uncorecache")),
}


@pytest.mark.parametrize("pair", list(combinations(sorted(OPTIONS), 2)))
def test_pairs(pair: tuple[str, str]) -> None:
    """Exactly the four documented pairs exclude each other, and only when both are on."""
    assert parse_options({pair[0]: "true", pair[1]: "false"}, alpha=True).names == (pair[0],)
    if frozenset(pair) in FORBIDDEN:
        with pytest.raises(CpuPolicyError, match=r"^static policy options \S+ and \S+ can not be used at the same"):
            parse_options(dict.fromkeys(pair, "true"), alpha=True)
    else:
        assert set(parse_options(dict.fromkeys(pair, "true"), alpha=True).names) == set(pair)


def test_align_by_socket_needs_the_right_machine_and_policy() -> None:
    """It does not go with single-numa-node, nor with more sockets than NUMA nodes."""
    options = CpuPolicyOptions.of("align-by-socket")
    check_machine(options, FOUR, "restricted")
    with pytest.raises(CpuPolicyError, match="Topolgy manager single-numa-node policy is incompatible"):
        check_machine(options, FOUR, "single-numa-node")
    with pytest.raises(CpuPolicyError, match="number of sockets are more than number of NUMA"):
        check_machine(options, TWO_SOCKETS_ONE_NODE, "restricted")
    check_machine(CpuPolicyOptions(), TWO_SOCKETS_ONE_NODE, "single-numa-node")


def test_policy_names() -> None:
    """Policies are told apart by their exact names."""
    assert isinstance(make_policy("none", {}, FOUR), NonePolicy)
    assert isinstance(make_policy("static", {}, FOUR, reserved_milli=1), StaticPolicy)
    with pytest.raises(CpuPolicyError, match=r'^unknown policy: "Static"$'):
        make_policy("Static", {}, FOUR, reserved_milli=1000)


def test_none_policy_takes_no_options() -> None:
    """The none policy lists what it got, sorted, as Go prints a map."""
    with pytest.raises(CpuPolicyError) as error:
        make_policy("none", {"b": "2", "a": "1"}, FOUR)
    assert str(error.value) == "new none policy error: None policy: received unsupported options=map[a:1 b:2]"


def test_reservation() -> None:
    """The reservation is rounded up, must not be missing, and a list replaces the choice."""
    for milli, reserved in ((1, "0"), (1000, "0"), (1001, "0-1")):
        policy = make_policy("static", {}, FOUR, reserved_milli=milli)
        assert isinstance(policy, StaticPolicy)
        assert str(policy.reserved) == reserved
    with pytest.raises(CpuPolicyError, match="unable to determine reserved CPU resources"):
        make_policy("static", {}, FOUR)
    listed = make_policy("static", {}, FOUR, reserved_milli=2000, reserved_list=CpuSet.parse("1,3"))
    assert str(listed.allocatable) == "0,2"


def test_reservation_larger_than_the_machine() -> None:
    """More reserved CPUs than there are cannot be had; a listed CPU must exist."""
    with pytest.raises(CpuPolicyError, match=r"\(size of  did not equal 5\)$"):
        make_policy("static", {}, FOUR, reserved_milli=4001)
    with pytest.raises(CpuPolicyError, match=r"unknown CPU ID: 4$"):
        make_policy("static", {}, FOUR, reserved_milli=1000, reserved_list=CpuSet.parse("4"))


def test_an_option_is_one_module() -> None:
    """No module of the model but an option's own names it, conflicts apart: a new one touches its own module."""
    folder = Path(options.__file__).parent
    spelt = {
        (name, path.name)
        for path in folder.parents[1].rglob("*.py")
        for name in OPTIONS
        if f'"{name}"' in path.read_text(encoding="utf-8")
    }

    assert {name for name, _ in spelt} == set(OPTIONS)
    for name, file in spelt:
        assert (folder / file).is_file()
        own = file == f"{name.replace('-', '_')}.py"
        assert own or name in next(o.conflicts for o in OPTIONS.values() if o.name.replace("-", "_") + ".py" == file)
