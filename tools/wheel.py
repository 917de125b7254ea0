"""What pip puts below ``share`` of the environment that a wheel is installed in: manual pages and completion.

hatchling calls this (``pyproject.toml``) while it builds a wheel. The generators are programs of their own in the
build's environment, which has what pinproof itself needs, and shtab.

Source: hatchling, "Build hook plugins" and ``shared_data``; Python Packaging User Guide, "Binary distribution format"
(``.data``).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

GENERATORS = ("tools.manual", "tools.completion")


class Share(BuildHookInterface[BuilderConfig]):
    """A wheel with them; a checkout that is installed as it is (``pip install --editable``) has none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write them into a directory of their own, and name it to hatchling."""
        if version == "editable":
            return
        self._made = tempfile.TemporaryDirectory()
        for generator in GENERATORS:
            subprocess.run([sys.executable, "-m", generator, self._made.name], cwd=self.root, check=True)
        build_data["shared_data"][self._made.name] = "share"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the directory."""
        if version != "editable":
            self._made.cleanup()
