"""The emulator: QEMU of Debian's backports with all the libraries it needs, unpacked into the lab's cache.

Debian 12's own QEMU 7.2 emulates a machine with a thread for each CPU. A guest's kernel patches jumps while other CPUs
run (every tracepoint and static key that is switched on or off), and now and then a 6.12 guest executed half of one and
died of an invalid instruction (seen twice). QEMU 10 has not shown that; why it does not has not been proven. It is also
a tenth to a third faster. Nothing is installed on the host.

Source: ld.so(8), apt_preferences(5).
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.lab.harness import debian, settings
from tests.lab.harness.architecture import AMD64, Architecture
from tests.lab.harness.settings import LabUnavailableError

RELEASES = ("bookworm", "bookworm-backports")
"""The last is preferred."""

_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_LOADER = "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
_FIRMWARE_FOLDERS = ("usr/share/qemu", "usr/share/seabios")
_BULK = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/perl5")


def command(architecture: Architecture = AMD64) -> tuple[str, ...]:
    """Return the words that start the emulator, before its own arguments.

    :raises LabUnavailableError: it is not in the cache.
    """
    tree = _tree(architecture)
    if not tree.exists():
        raise LabUnavailableError(f"no emulator in {settings.cache()}: run make lab-image")
    # By its own loader: its libraries must not be mixed with those of the host, nor be seen by what it starts.
    program = (
        str(tree / _LOADER),
        "--library-path",
        str(tree / _LIBRARIES),
        str(tree / "usr/bin" / architecture.program),
    )
    return (*program, *(word for folder in _FIRMWARE_FOLDERS for word in ("-L", str(tree / folder))))


def build(say: Callable[[str], None] = lambda line: None, architecture: Architecture = AMD64) -> None:
    """Download and unpack the emulator unless it is there; older ones are removed.

    :raises LabUnavailableError: a package cannot be had.
    """
    target = _tree(architecture)
    if target.exists():
        return
    store = settings.cache()
    say(f"downloading {architecture.emulator} of {RELEASES[-1]}")
    packages = debian.download(store / architecture.folder("packages-emulator"), [architecture.emulator], RELEASES)
    with tempfile.TemporaryDirectory(prefix="building-", dir=store) as temporary:
        tree = Path(temporary) / "tree"
        debian.make_root(tree)
        for package in packages:
            debian.unpack(package, tree, tuple(f"./{folder}" for folder in _BULK))
        for old in store.glob(f"{architecture.folder('emulator')}-" + "[0-9a-f]" * 16):
            shutil.rmtree(old)
        tree.rename(target)


def _tree(architecture: Architecture) -> Path:
    recipe = json.dumps([[architecture.emulator], RELEASES, _BULK])
    return settings.cache() / f"{architecture.folder('emulator')}-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"
