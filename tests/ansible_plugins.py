"""Pure parts of the Ansible collection, for tests: files that no package of ours has."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

PLUGINS = Path(__file__).resolve().parents[1] / "ansible/plugins"


def plugin(name: str) -> ModuleType:
    """Load one by its path below ``ansible/plugins``, such as ``module_utils/endings``."""
    spec = importlib.util.spec_from_file_location(name.replace("/", "_"), PLUGINS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
