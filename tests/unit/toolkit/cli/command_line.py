"""Runs a verb in this process as the command line does: its streams and its exit code, errors in one line included."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest.mock import patch

from toolkit.cli.main import main


@dataclass(frozen=True)
class Ended:
    """What a verb left."""

    exit_code: int
    stdout: str
    stderr: str


def pinproof(*arguments: object) -> Ended:
    """Run ``pinproof ARGUMENTS``."""
    out, err = io.StringIO(), io.StringIO()
    argv = ["pinproof", *(str(argument) for argument in arguments)]
    with patch.object(sys, "argv", argv), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1 if end.code else 0
    return Ended(code, out.getvalue(), err.getvalue())
