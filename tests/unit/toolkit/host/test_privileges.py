"""What a process may do: read from the kernel's own words, and named one by one where it is lacking."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.toolkit.host.sysroots import write
from toolkit.errors import HostUnsupportedError
from toolkit.host.privileges import Cap, held, how_to_get, lacking, require, why_no_cgroup


def process(root: Path, *caps: Cap) -> Path:
    """A machine whose /proc/self has these capabilities in effect."""
    bits = sum(1 << cap for cap in caps)
    return write(root, {"proc/self/status": f"Name:\tx\nCapPrm:\tffff\nCapEff:\t{bits:016x}\nCapBnd:\tffff\n"})


def test_those_in_effect_count(tmp_path: Path) -> None:
    """Not those that the process might take, nor those of its bounding set."""
    assert held(process(tmp_path, Cap.BPF, Cap.SYS_NICE)) == {Cap.BPF, Cap.SYS_NICE}


@pytest.mark.parametrize("cap", [Cap.BPF, Cap.PERFMON, Cap.DAC_OVERRIDE])
def test_each_that_is_lacking_is_named(tmp_path: Path, cap: Cap) -> None:
    """And no other."""
    needed = (Cap.BPF, Cap.PERFMON, Cap.DAC_OVERRIDE)
    root = process(tmp_path, *(one for one in needed if one is not cap))
    assert lacking(*needed, root=root) == (cap,)
    assert str(cap) in how_to_get(cap)


def test_the_old_capability_stands_for_those_that_were_cut_out_of_it(tmp_path: Path) -> None:
    """CAP_SYS_ADMIN is enough for BPF and perf events; files of others it does not open."""
    root = process(tmp_path, Cap.SYS_ADMIN)
    assert lacking(Cap.BPF, Cap.PERFMON, Cap.DAC_OVERRIDE, root=root) == (Cap.DAC_OVERRIDE,)


def test_a_refusal_names_what_needs_it_and_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line."""
    monkeypatch.setattr("toolkit.host.privileges.held", lambda _root: frozenset({Cap.BPF}))
    require("this", Cap.BPF)
    with pytest.raises(
        HostUnsupportedError, match=r"^loading needs CAP_PERFMON: run it with sudo, or with CAP_PERFMON"
    ):
        require("loading", Cap.BPF, Cap.PERFMON)


def test_a_place_that_is_not_there_is_a_cause(tmp_path: Path) -> None:
    """Not a traceback."""
    assert why_no_cgroup(tmp_path) == ("", "")
    assert "No such file" in why_no_cgroup(tmp_path / "none")[0]
