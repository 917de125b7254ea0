"""Header discovery on fake trees: order, merging, and what is said where there is nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from probes.headers import find_headers, header_trees, kernel_arch
from toolkit.errors import HostUnsupportedError

ARCH = kernel_arch()
GENERATED = ("include/generated/autoconf.h", f"arch/{ARCH}/include/generated/x.h")
COMMON = ("include/linux/kconfig.h", "include/uapi/linux/bpf.h", f"arch/{ARCH}/include/asm/x.h")


def make(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    return folder


@pytest.fixture(autouse=True)
def _no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BCC_KERNEL_SOURCE", raising=False)


@pytest.fixture
def host(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    make(root, "proc/sys/kernel/osrelease")
    (root / "proc/sys/kernel/osrelease").write_text("6.18.1-test\n")
    return root


def test_own_headers_come_first(host: Path, tmp_path: Path) -> None:
    """The running kernel's own complete tree is taken as it is."""
    own = make(host / "lib/modules/6.18.1-test/build", *GENERATED, *COMMON)
    make(host / "usr/src/linux-headers-6.1.0-9-amd64", *GENERATED, *COMMON)

    assert find_headers(host, tmp_path / "work").path == own.resolve()


def test_split_packages_are_merged_by_links_in_the_work_directory(host: Path, tmp_path: Path) -> None:
    """Debian's two packages become one tree; theirs stay as they were."""
    generated = make(host / "usr/src/linux-headers-6.1.0-9-amd64", *GENERATED)
    common = make(host / "usr/src/linux-headers-6.1.0-9-common", *COMMON)
    before = sorted(path for path in (host / "usr").rglob("*"))

    tree = find_headers(host, tmp_path / "work")

    assert tree.path.is_relative_to(tmp_path / "work")
    assert (tree.path / GENERATED[0]).resolve() == (generated / GENERATED[0]).resolve()
    assert (tree.path / COMMON[1]).resolve() == (common / COMMON[1]).resolve()
    assert sorted(path for path in (host / "usr").rglob("*")) == before


def test_not_newer_than_the_kernel_is_preferred(host: Path, tmp_path: Path) -> None:
    """Among other kernels' headers the newest that is not newer than the running kernel comes first."""
    for version in ("5.10.0-1", "6.1.0-9", "7.2.0-1"):
        make(host / f"usr/src/linux-headers-{version}-amd64", *GENERATED, *COMMON)

    names = [tree.path.name for tree in header_trees(host, tmp_path / "work")]

    assert names == [f"linux-headers-{version}-amd64" for version in ("6.1.0-9", "5.10.0-1", "7.2.0-1")]


def test_nothing_says_what_to_install(host: Path, tmp_path: Path) -> None:
    """No headers at all is exit code 4 with the package's name."""
    with pytest.raises(HostUnsupportedError, match="linux-headers") as caught:
        find_headers(host, tmp_path / "work")

    assert caught.value.exit_code == 4


def test_incomplete_tree_is_passed_over(host: Path, tmp_path: Path) -> None:
    """Half a tree without its other half is no tree."""
    make(host / "usr/src/linux-headers-6.1.0-9-amd64", *GENERATED)

    with pytest.raises(HostUnsupportedError):
        find_headers(host, tmp_path / "work")
