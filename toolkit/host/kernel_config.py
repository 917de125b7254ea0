"""The configuration that the running kernel was built with, where the machine keeps it.

Source: Documentation/kbuild/kconfig-language.rst for the syntax; ``/proc/config.gz`` exists with CONFIG_IKCONFIG_PROC.
"""

from __future__ import annotations

import re
import zlib

from toolkit.host.sysfs import SysTree

_MAX_BYTES = 8 * 1024 * 1024
_GZIP = 16 + zlib.MAX_WBITS
"""zlib's way to ask for a gzip header; with ``decompress`` the size of the output can be bounded."""
_LINE = re.compile(r"(CONFIG_\w+)=(.*)", re.ASCII)


def read_kernel_config(tree: SysTree) -> dict[str, str] | None:
    """Return ``CONFIG_X`` -> value of what is set, or ``None`` where no configuration of this kernel is found."""
    text = _from_proc(tree)
    release = tree.read("proc/sys/kernel/osrelease") or ""
    if text is None and re.fullmatch(r"[\w.+~-]{1,128}", release, re.ASCII):
        for path in (f"boot/config-{release}", f"lib/modules/{release}/config", f"usr/lib/modules/{release}/config"):
            text = tree.read(path, _MAX_BYTES)
            if text is not None:
                break
    if text is None:
        return None
    return {match[1]: match[2].strip('"') for line in text.splitlines() if (match := _LINE.fullmatch(line))}


def _from_proc(tree: SysTree) -> str | None:
    packed = tree.read_bytes("proc/config.gz", _MAX_BYTES)
    if packed is None:
        return None
    try:
        # A small file can unpack to gigabytes: stop where no configuration ends.
        return zlib.decompressobj(_GZIP).decompress(packed, _MAX_BYTES).decode("utf-8", "replace")
    except zlib.error:
        return None
