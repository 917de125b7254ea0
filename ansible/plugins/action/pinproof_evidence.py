"""The controller's half of bringing evidence home: unpack what the node packed, then let the node remove it."""

from __future__ import annotations

import base64
import glob
import os
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.pinproof.node.plugins.module_utils import unpacking

from ansible.plugins.action import ActionBase

MODULE = "pinproof.node.pinproof_evidence"
MIB = 1024 * 1024
UNPACKED = 40
"""How many times larger than its archive a folder may be: JSON of a run packs to an eighth."""


class ActionModule(ActionBase):
    """Fetch, unpack, remove."""

    _requires_connection = True

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        """Run both halves; what comes back has no archive in it."""
        result = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        part = "list" if self._task.check_mode else "read"
        found = self._execute_module(MODULE, {**arguments, "part": part}, task_vars=task_vars)
        archives = found.pop("archives", {})
        result.update(found)
        if result.get("failed") or result.get("unreachable") or part == "list":
            return result
        dest = os.path.expanduser(str(arguments["dest"]))
        most = int(arguments.get("max_mib", 256)) * MIB * UNPACKED
        came: dict[str, str] = {}
        left = list(found.get("left", []))
        for folder, packed in archives.items():
            home = os.path.join(dest, os.path.basename(folder))
            if os.path.exists(os.path.join(home, "job.json")) or os.path.exists(os.path.join(home, "runs")):
                came[folder] = home  # it came before, and stayed on the node as was asked
                continue
            try:
                left += [f"{folder}: {why}" for why in unpacking.unpack(base64.b64decode(packed), home, most)]
                came[folder] = home
            except (ValueError, OSError) as error:
                left.append(f"{folder}: {error}")
        if not boolean(arguments.get("keep", False), strict=False):
            for folder in came:
                gone = self._execute_module(
                    MODULE, {**arguments, "folder": folder, "part": "remove"}, task_vars=task_vars
                )
                left += [f"{name}: it could not be removed" for name in gone.get("left", [])]
        homes = sorted(came.values())
        found = evidence_in(homes[0]) if len(homes) == 1 else None
        result.update(folders=homes, left=left, changed=False, evidence=found and os.path.dirname(found))
        return result


def evidence_in(home: str) -> str | None:
    """The ``session.json``, or the only ``result.json``, in a folder that came home."""
    for pattern in ("runs/*/session.json", "session.json", "runs/*/result.json"):
        found = sorted(glob.glob(os.path.join(glob.escape(home), pattern)))
        # Of several results without a session none speaks for the job.
        if len(found) == 1:
            return found[0]
    return None
