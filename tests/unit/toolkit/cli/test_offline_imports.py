"""Verbs that need no kernel import nothing that observes one or changes a machine: they start at once, and anywhere."""

from __future__ import annotations

import subprocess
import sys

OFFLINE = ("capture", "claims", "compare", "explain", "fleet", "judge", "report", "rules", "simulate", "topology")
"""``plan`` reads scenarios, whose faults know how they are planted; it observes nothing either."""
LOADED = """
import importlib, sys
for verb in sys.argv[1:]:
    importlib.import_module(f"toolkit.cli.{verb}")
print(*sorted(sys.modules))
"""


def loaded(*verbs: str) -> list[str]:
    """Return the modules of this project that a process has after importing verbs."""
    command = [sys.executable, "-c", LOADED, *verbs]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.split() if name.partition(".")[0] in ("toolkit", "probes", "validators")]


def within(names: list[str], *packages: str) -> list[str]:
    """Return those of the names that are in one of the packages."""
    return [name for name in names if name.startswith(tuple(f"{package}." for package in packages))]


def test_offline_verbs_import_no_probe_and_nothing_that_changes_a_machine() -> None:
    """Neither at once nor through another module; what ``watch`` imports shows that it would be seen."""
    assert within(loaded(*OFFLINE), "probes", "toolkit.apply", "toolkit.faults") == []
    assert within(loaded("plan"), "probes") == []
    seen = within(loaded("watch"), "probes", "toolkit.apply")
    assert {"probes.observer", "toolkit.apply.pinned"} <= set(seen)


def test_help_imports_no_model() -> None:
    """What validates values is more than half of the time that the list of verbs would take."""
    command = [sys.executable, "-c", "import sys, toolkit.cli.main; print(*sys.modules)"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in names if name.startswith(("pydantic", "toolkit.model.serde"))] == []
