"""Debian packages for the lab: resolved and downloaded by apt into its cache, never installed on the host.

apt is given an empty package state, so that the guest holds the whole closure whatever the host has installed, and
the same list gives the same guest on any Debian 12 machine. Maintainer scripts do not run.
Source: apt-get(8), apt.conf(5) (``Dir::State::status``), deb(5).
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.lab.harness.settings import LabUnavailableError, tool

KERNELS = {
    "5.10": "linux-image-amd64",
    "6.1": "linux-image-amd64",
    "6.12": "linux-image-6.12-amd64",
    "6.12-rt": "linux-image-6.12-rt-amd64",
}
"""The lab's name of a kernel -> Debian's package."""
RELEASES = {"5.10": "bullseye"}
"""Kernels of another release of Debian than the guest's, and which: the oldest kernel that pinproof says it runs on."""

_ESSENTIAL = (
    "base-files",
    "base-passwd",
    "bash",
    "dash",
    "diffutils",
    "findutils",
    "grep",
    "gzip",
    "hostname",
    "libc-bin",
    "login",
    "mawk",
    "mount",
    "sed",
)
"""apt adds what a package depends on, and takes the essential packages for granted."""

GUEST_PACKAGES = (
    *_ESSENTIAL,
    "python3",
    "python3-bpfcc",
    "runc",
    "crun",
    "stress-ng",
    "busybox-static",
    "iproute2",
    "util-linux",
    "procps",
    "kmod",
    "numactl",
)


_ARCHIVE = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian"
_MERGED = ("bin", "sbin", "lib", "lib64")


def download(
    archive: Path, wanted: Sequence[str], releases: Sequence[str] = (), architecture: str = "amd64"
) -> list[Path]:
    """Fetch the closure of packages; return the files of exactly this closure.

    :param releases: where to look, the preferred one last; empty: where the host's own apt looks.

    :raises LabUnavailableError: apt cannot resolve or fetch them.
    """
    (archive / "partial").mkdir(parents=True, exist_ok=True)
    state = archive / "empty-status"
    state.write_text("")
    options: dict[str, object] = {
        "Dir::State::status": state,
        "Dir::Cache::archives": archive,
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "root",
    }
    if releases:
        (archive / "lists/partial").mkdir(parents=True, exist_ok=True)
        sources = archive / "sources.list"
        sources.write_text("".join(f"deb {_ARCHIVE} {release} main\n" for release in releases))
        options |= {
            "Dir::State::lists": archive / "lists",
            "Dir::Etc::sourcelist": sources,
            "Dir::Etc::sourceparts": "/dev/null",
            "APT::Default-Release": releases[-1],
        }
    command = [tool("apt-get"), *(f"-o{key}={value}" for key, value in options.items())]
    fetch = [*command, "--quiet=2", "--yes", "--download-only", "install", *wanted]
    if releases:
        _run([*command, "--quiet=2", "update"])
        _run(fetch)
    else:
        try:
            _run(fetch)
        except LabUnavailableError:
            # The host's lists lack a release, or name files that the archive has replaced since. A source that cannot
            # be reached makes update fail although the others are fetched: what counts is whether the packages come.
            subprocess.run([tool("apt-get"), "--quiet=2", "update"], capture_output=True, check=False)
            _run(fetch)
    listing = _run([*command, "--simulate", "install", *wanted])
    files = []
    for name, version in re.findall(r"^Inst (\S+) \((\S+) ", listing, re.MULTILINE):
        found = sorted(archive.glob(f"{name}_{version.replace(':', '%3a')}_*.deb"))
        if not found:
            raise LabUnavailableError(f"apt resolved {name} {version} but {archive} does not hold it")
        files.append(found[0])
    return files


def is_kernel(package: Path) -> bool:
    """Say whether a package's file has a kernel in it."""
    return package.name.startswith("linux-image-")


def make_root(root: Path) -> None:
    """Make an empty root directory whose ``/bin``, ``/lib`` … are links into ``/usr``."""
    for name in _MERGED:
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")


_MODULES_LEFT_OUT = (
    "drivers/gpu",
    "drivers/media",
    "drivers/net",
    "drivers/scsi",
    "drivers/usb",
    "drivers/iio",
    "sound",
)
"""Hardware that no guest has: three quarters of a kernel package."""


def unpack(package: Path, root: Path, without: tuple[str, ...] = ()) -> None:
    """Extract a package below a root of :func:`make_root`."""
    excludes = [f"--exclude={pattern}" for pattern in without]
    with subprocess.Popen([tool("dpkg-deb"), "--fsys-tarfile", package], stdout=subprocess.PIPE) as reader:
        into = ["--keep-directory-symlink", "--directory", str(root)]
        _run(["tar", "--extract", *excludes, *into], stdin=reader.stdout)
    if reader.returncode:
        raise LabUnavailableError(f"{package.name} cannot be unpacked: dpkg-deb ended with {reader.returncode}")


def unpack_kernels(packages: list[Path], root: Path) -> None:
    """Extract kernels and their modules, and index the modules."""
    make_root(root)  # from Debian 13 on modules are packed below /usr/lib
    left_out = tuple(f"./{lib}/modules/*/kernel/{part}" for lib in ("lib", "usr/lib") for part in _MODULES_LEFT_OUT)
    for package in packages:
        unpack(package, root, left_out)
    for release in (root / "lib/modules").iterdir():
        _run([tool("depmod"), "-b", str(root), release.name])


def kernel_release(root: Path, kernel: str, kernels: Mapping[str, str]) -> str:
    """Return the release (``uname -r``) of a kernel in an unpacked tree.

    :param kernels: the lab's names and Debian's packages.
    :raises LabUnavailableError: unknown name, or not there.
    """
    if kernel not in kernels:
        raise LabUnavailableError(f"no kernel {kernel!r} in the lab: {', '.join(kernels)}")
    version = kernel.partition("-")[0]
    kind = re.sub(r"^linux-image-(\d+\.\d+-)?", "", kernels[kernel])  # amd64, rt-amd64, arm64-16k
    for image in sorted((root / "boot").glob("vmlinuz-*")):
        release = image.name.removeprefix("vmlinuz-")
        if re.fullmatch(rf"{re.escape(version)}\.[^-]*-(\d+-)?{re.escape(kind)}", release):
            return release
    raise LabUnavailableError(f"the lab's cache holds no kernel {kernel}: run make lab-image")


def _run(command: list[str], stdin: object = None) -> str:
    done = subprocess.run(command, stdin=stdin, capture_output=True, text=True, check=False)  # type: ignore[call-overload]
    if done.returncode:
        tail = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise LabUnavailableError(f"{Path(command[0]).name} ended with {done.returncode}: {' / '.join(tail)}")
    return str(done.stdout)
