"""Programs that are asked: their standard output, within a deadline and a size; never an interactive one."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence

from toolkit.errors import InputError
from toolkit.text.names import printable

DEADLINE_S = 30.0
"""These tools answer in a tenth of a second; on a machine under load in seconds."""
MAX_BYTES = 64 * 1024 * 1024
_SAID = 200


def output_of(command: Sequence[str], deadline_s: float = DEADLINE_S) -> bytes:
    """Run a program and return what it printed. Its language is C, its input is empty.

    :raises InputError: not installed, failed (with its own first words), too late, or more than :data:`MAX_BYTES`.
    """
    where, expected = " ".join(command[:3]), "an answer"
    program = shutil.which(command[0], path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if program is None:
        raise InputError(command[0], "not installed", "the program, or its output as a file")
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            done = subprocess.run(
                [program, *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                timeout=deadline_s,
                check=False,
                env={**os.environ, "LC_ALL": "C", "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": "cat"},
            )
        except subprocess.TimeoutExpired:
            raise InputError(where, f"no end within {deadline_s:g} s", expected) from None
        except OSError as error:
            raise InputError(where, error.strerror or str(error), expected) from None
        if done.returncode:
            err.seek(0)
            said = printable(" ".join(err.read(4096).decode("utf-8", "replace").split())[:_SAID])
            raise InputError(where, f"exit code {done.returncode} ({said})", expected)
        size = os.fstat(out.fileno()).st_size
        if size > MAX_BYTES:
            raise InputError(where, f"{size} bytes", f"at most {MAX_BYTES}")
        out.seek(0)
        return out.read()
