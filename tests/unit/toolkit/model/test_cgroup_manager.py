"""How a kubelet calls the cgroup of all pods below its ``cgroupRoot``."""

from __future__ import annotations

import pytest

from toolkit.model.cgroup_manager import kubepods_below


@pytest.mark.parametrize(
    ("cgroup_root", "cgroupfs", "systemd"),
    [
        ("", "kubepods", "kubepods.slice"),
        ("/", "kubepods", "kubepods.slice"),
        ("/kubelet", "kubelet/kubepods", "kubelet.slice/kubelet-kubepods.slice"),
        ("/a/b-c/", "a/b-c/kubepods", "a.slice/a-b_c.slice/a-b_c-kubepods.slice"),
        ("/a.slice/a-b.slice", "a.slice/a-b.slice/kubepods", "a.slice/a-b.slice/a-b-kubepods.slice"),
    ],
)
def test_both_drivers_names(cgroup_root: str, cgroupfs: str, systemd: str) -> None:
    """A dash in a name is no step down, one in a slice's name is."""
    assert kubepods_below(cgroup_root) == (cgroupfs, systemd)
