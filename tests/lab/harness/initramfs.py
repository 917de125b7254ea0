"""The initramfs that starts a guest: busybox, the init script, the agent, and the modules that the root needs.

Written as a newc cpio archive by this module: the same input gives the same bytes, so its digest can key a snapshot.
Source: kernel Documentation/driver-api/early-userspace/buffer-format.rst; modprobe(8) ``--show-depends``.
"""

from __future__ import annotations

import hashlib
import lzma
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.lab.harness import settings
from tests.lab.harness.image import Image
from tests.lab.harness.settings import LabUnavailableError, tool

MODULES = ("virtio_pci", "virtio_blk", "virtio_console", "virtio_rng", "ext4", "overlay")

_DIRECTORY, _FILE = 0o040755, 0o100755


def archive(entries: dict[str, bytes | None]) -> bytes:
    """Make a newc cpio archive; ``None`` is a directory. Parents must come before what they hold."""
    out = bytearray()
    for inode, (name, content) in enumerate([*entries.items(), ("TRAILER!!!", b"")], start=1):
        data = content or b""
        mode = _DIRECTORY if content is None else _FILE
        path = name.encode() + b"\0"
        fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
        out += b"070701" + b"".join(b"%08X" % field for field in fields) + path
        out += b"\0" * (-len(out) % 4)
        out += data + b"\0" * (-len(data) % 4)
    return bytes(out)


def module_files(kernels: Path, release: str, modules: Sequence[str] = MODULES) -> list[Path]:
    """Return the modules with everything they depend on, in loading order; built-in ones need no file."""
    files: list[Path] = []
    for module in modules:
        command = [tool("modprobe"), "--dirname", str(kernels), "--set-version", release, "--show-depends", module]
        listing = subprocess.run(command, capture_output=True, text=True, check=False)
        if listing.returncode:
            raise LabUnavailableError(f"kernel {release} has no module {module}: {listing.stderr.strip()[:200]}")
        for line in listing.stdout.splitlines():
            word, _, rest = line.partition(" ")
            if word == "insmod" and (path := Path(rest.split()[0])) not in files:
                files.append(path)
    return files


def module_text(path: Path) -> bytes:
    """Return a module as insmod takes it: Debian 6.12's are compressed."""
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data


def build(image: Image, release: str) -> Path:
    """Return the initramfs for a kernel, made when it does not exist yet."""
    entries: dict[str, bytes | None] = {"bin": None, "modules": None, "dev": None}
    entries["bin/busybox"] = image.busybox.read_bytes()
    entries["init"] = (settings.INSIDE / "init.sh").read_bytes()
    for name in ("agent.py", "wire.py"):
        entries[name] = (settings.INSIDE / name).read_bytes()
    order = []
    for path in module_files(image.kernels, release):
        entries[f"modules/{path.name.removesuffix('.xz')}"] = module_text(path)
        order.append(path.name.removesuffix(".xz"))
    entries["modules/order"] = "".join(f"{name}\n" for name in order).encode()
    data = archive(entries)
    target = settings.cache() / f"initramfs-{release}-{hashlib.sha256(data).hexdigest()[:16]}"
    if not target.exists():
        for old in settings.cache().glob(f"initramfs-{release}-*"):
            old.unlink()
        target.write_bytes(data)
    return target
