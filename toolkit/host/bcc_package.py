"""The BPF Compiler Collection for the Python that runs: there, or why not, and what to do.

It comes from the distribution, and its package is for the distribution's own Python. Another one (pyenv, conda, a newer
one beside it), or a virtual environment that does not see the system's packages, has none, however often the package is
installed. So the system's Python is asked, too. The ``bcc`` on PyPI is an unrelated project and is recognised.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

SYSTEM_PYTHON = Path("/usr/bin/python3")
INSTALL = "install python3-bpfcc (Debian, Ubuntu) or python3-bcc (Fedora)"
_ASK = "import json, platform, bcc; bcc.BPF; print(json.dumps([platform.python_version(), bcc.__file__]))"
_ASK_S = 20.0


def find_bcc(system_python: Path = SYSTEM_PYTHON) -> tuple[Any, str, str]:
    """Import it; returns the package, or ``None`` with the cause and what to do."""
    try:
        module = importlib.import_module("bcc")
    except Exception as error:  # a broken libbcc raises OSError or AttributeError while it is imported
        cause = f"the BPF Compiler Collection cannot be imported by {_this_python()}: {error}"
        return None, cause, _remedy(system_python)
    if not (hasattr(module, "BPF") and hasattr(module, "PerfType")):
        where = getattr(module, "__file__", None) or "bcc"
        cause = f"the package at {where} is another project's bcc, not the BPF Compiler Collection"
        return None, cause, f"{sys.executable} -m pip uninstall bcc; {INSTALL}"
    return module, "", ""


def _this_python() -> str:
    kind = "" if sys.prefix == sys.base_prefix else ", a virtual environment"
    return f"{sys.executable} (Python {platform.python_version()}{kind})"


def _remedy(system_python: Path) -> str:
    """Say what to do: install the package, or run pinproof by the Python that has it."""
    found = _asked(system_python)
    if found is None:
        return f"{INSTALL}: it is for {system_python}, and a virtual environment of that needs --system-site-packages"
    version, place = found
    there = f"the package, python3-bpfcc or python3-bcc, is installed for {system_python} (Python {version}; {place})"
    if Path(sys.base_prefix) == system_python.parent.parent and sys.prefix != sys.base_prefix:
        config = Path(sys.prefix, "pyvenv.cfg")
        return f"{there}: set include-system-site-packages = true in {config}"
    environment = f"{system_python} -m venv --system-site-packages DIR"
    return f"{there}: that one must run pinproof: {environment}, then DIR/bin/pip install pinproof"


def _asked(python: Path) -> tuple[str, str] | None:
    """Return the version of another Python and where its bcc is, or ``None``: it has none, or cannot be asked."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    try:
        done = subprocess.run(
            [python, "-I", "-c", _ASK], capture_output=True, text=True, timeout=_ASK_S, check=True, env=kept, cwd="/"
        )
        version, place = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return str(version), str(place)
