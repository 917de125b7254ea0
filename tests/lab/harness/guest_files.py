"""What of the project is put into a guest: its files, compiled on the host, as one archive."""

from __future__ import annotations

import functools
import importlib.util
import io
import marshal
import sys
import tarfile
import time
import tomllib
from collections.abc import Iterable
from pathlib import Path

from tests.lab.harness import settings

PROJECT = "/opt/pinproof"
"""Where the project lies in the guest."""


def project_files(folders: Iterable[str], *, with_bytecode: bool) -> Iterable[tuple[str, bytes, int]]:
    """Yield name, bytes and mode of the project's files, and what an installation would register."""
    for folder in folders:
        for path in sorted((settings.PROJECT / folder).rglob("*")):
            if not path.is_file() or "__pycache__" in path.parts:
                continue
            name = str(path.relative_to(settings.PROJECT))
            data = path.read_bytes()
            yield name, data, path.stat().st_mode & 0o777
            if path.suffix == ".py" and with_bytecode:
                yield from _bytecode(name, data)
    text = (settings.PROJECT / "pyproject.toml").read_bytes()
    yield "pyproject.toml", text, 0o644
    # What an installation would register: the version, and pytest's and other tools' entry points.
    project = tomllib.loads(text.decode())["project"]
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    groups = {"console_scripts": project.get("scripts", {}), **project.get("entry-points", {})}
    points = "".join(
        f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in each.items()) for group, each in groups.items()
    )
    folder = f"{project['name']}-{project['version']}.dist-info"
    yield f"{folder}/METADATA", metadata.encode(), 0o644
    yield f"{folder}/entry_points.txt", points.encode(), 0o644


@functools.cache
def _bytecode(name: str, source: bytes) -> tuple[tuple[str, bytes, int], ...]:
    """Compile on the host what the guest would compile many times slower."""
    try:
        code = compile(source, f"{PROJECT}/{name}", "exec", dont_inherit=True)
    except SyntaxError:
        return ()
    # PEP 552: flags 1 is a hash-based file that is never checked against its source.
    data = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + importlib.util.source_hash(source)
    target = Path(name).parent / "__pycache__" / f"{Path(name).stem}.{sys.implementation.cache_tag}.pyc"
    return ((str(target), data + marshal.dumps(code), 0o644),)


def packed(files: Iterable[tuple[str, bytes, int]]) -> bytes:
    """Return a tar archive of files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data, mode in files:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(data), mode, int(time.time())
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()
