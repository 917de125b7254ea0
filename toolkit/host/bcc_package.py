"""The BPF Compiler Collection for the Python that runs: there, or why not, and what to do.

It comes from the distribution, whose package is for the distribution's own Python. Its Python part is pure (``ctypes``
on libbcc), so the same files serve any other interpreter too: a newer one beside it, one of pyenv, or a virtual
environment that does not see the system's packages. That package alone is taken from there, and nothing beside it. The
``bcc`` on PyPI is an unrelated project and is recognised.

Source: names of packages: packages.debian.org, packages.ubuntu.com, packages.fedoraproject.org, Red Hat's and SUSE's
package browsers, archlinux.org/packages, pkgs.alpinelinux.org. Those of Debian were tried.
"""

from __future__ import annotations

import importlib
import importlib.util
import platform
import sys
import warnings
from pathlib import Path
from types import ModuleType

from toolkit import presence
from toolkit.host.cgroup_mounts import read_control

PLACES = ("usr/lib/python3/dist-packages", "usr/lib/python3.*/site-packages", "usr/lib64/python3.*/site-packages")
"""Where distributions keep it: Debian's family, and all others."""
IMAGE = "or use the container image, which has it (make image)"
_COMMANDS = {
    "debian": "apt install python3-bpfcc",
    "ubuntu": "apt install python3-bpfcc",
    "fedora": "dnf install python3-bcc",
    "rhel": "dnf install python3-bcc",
    "centos": "dnf install python3-bcc",
    "amzn": "dnf install python3-bcc",
    "suse": "zypper install python3-bcc",
    "opensuse": "zypper install python3-bcc",
    "arch": "pacman -S python-bcc",
    "alpine": "apk add py3-bcc",
}
"""Words of ``ID`` and ``ID_LIKE`` in os-release(5) -> how bcc is installed there."""


def find_bcc(root: Path = Path("/")) -> tuple[ModuleType | None, str, str]:
    """Import it; returns the package, or ``None`` with the cause and what to do.

    :param root: below which the distribution's copy and its os-release are looked for.
    """
    try:
        module = importlib.import_module("bcc")
    except ModuleNotFoundError as error:
        module, cause = None, f"the BPF Compiler Collection cannot be imported by {_this_python()}: {error}"
        place = distribution_copy(root)
        if place is not None:
            try:
                module = _load(place)
            except Exception as broken:
                cause = f"{place.parent} cannot be imported by {_this_python()}: {broken}"
    except Exception as error:  # a broken libbcc raises OSError or AttributeError while it is imported
        module, cause = None, f"the BPF Compiler Collection cannot be imported by {_this_python()}: {error}"
    if module is None:
        return None, cause, how_to_install(root)
    if not (hasattr(module, "BPF") and hasattr(module, "PerfType")):
        where = getattr(module, "__file__", None) or "bcc"
        cause = f"the package at {where} is another project's bcc, not the BPF Compiler Collection"
        return None, cause, f"{sys.executable} -m pip uninstall bcc; {how_to_install(root)}"
    return module, "", ""


def origin(root: Path = Path("/")) -> Path | None:
    """Return the file that :func:`find_bcc` imports, without importing it; ``None``: there is none."""
    found = importlib.util.find_spec("bcc")
    if found is not None:
        return Path(found.origin) if found.origin else None
    return distribution_copy(root)


def distribution_copy(root: Path) -> Path | None:
    """Return the ``__init__.py`` of the distribution's copy, the newest Python's first; ``None``: not installed."""
    for place in PLACES:
        folders = sorted(
            presence.below(root, place), key=lambda one: [int(n) for n in one.parent.name[6:].split(".") if n]
        )
        for folder in reversed(folders):
            file = folder / "bcc/__init__.py"
            if presence.exists(file.with_name("libbcc.py")) and presence.exists(file):
                return file
    return None


def _load(file: Path) -> ModuleType:
    """Import one package from its file: what else lies beside it is another Python's."""
    spec = importlib.util.spec_from_file_location("bcc", file, submodule_search_locations=[str(file.parent)])
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["bcc"] = importlib.util.module_from_spec(spec)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its sources are older than this Python, and not ours to mend
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules["bcc"]
        raise
    return module


def how_to_install(root: Path = Path("/")) -> str:
    """Say how this distribution's users get it, by its own os-release."""
    fields = dict(
        line.split("=", 1) for line in (read_control(root / "etc/os-release") or "").splitlines() if "=" in line
    )
    words = f"{fields.get('ID', '')} {fields.get('ID_LIKE', '')}".replace('"', "").replace("'", "").split()
    for word in words:
        command = _COMMANDS.get(word) or _COMMANDS.get(word.partition("-")[0])
        if command is not None:
            return f"{command}, {IMAGE}"
    return f"install bcc with its Python part (python3-bpfcc of Debian, python3-bcc of Fedora), {IMAGE}"


def _this_python() -> str:
    kind = "" if sys.prefix == sys.base_prefix else ", a virtual environment"
    return f"{sys.executable} (Python {platform.python_version()}{kind})"
