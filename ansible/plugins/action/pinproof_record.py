"""Write the controller's record of a host, ``RESULTS/<host>/record.json``, from what the controller has in hand."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from datetime import datetime, timezone
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.pinproof.node.plugins.action.pinproof_evidence import evidence_in
from ansible_collections.pinproof.node.plugins.module_utils import endings

from ansible.plugins.action import ActionBase

SCHEMA = "pinproof.record/1"
MOST_READ = 64 * 1024 * 1024
_SAFE = re.compile(r"[^A-Za-z0-9._:@+-]")


class ActionModule(ActionBase):
    """Everything happens here; nothing of it on the node."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        """Write the records."""
        result = super().run(tmp, task_vars)
        _, wanted = self.validate_argument_spec(
            argument_spec={
                "results": {"type": "path", "required": True},
                "playbook": {"type": "str", "required": True},
                "job": {"type": "str", "required": True},
                "hosts": {"type": "list", "elements": "str", "default": []},
                "state": {"type": "str", "choices": ["begun", "ended"], "default": "ended"},
                "started_at_s": {"type": "float"},
                "look": {"type": "dict", "default": {}},
                "run": {"type": "dict", "default": {}},
                "evidence": {"type": "dict", "default": {}},
                "before_evidence": {"type": "dict", "default": {}},
                "stopped": {"type": "str", "default": ""},
                "worse": {"type": "str", "default": ""},
                "compare_exit_code": {"type": "int", "default": 0},
                "notes": {"type": "list", "elements": "str", "default": []},
                "clock_s": {"type": "float", "default": 30},
            }
        )
        hosts = wanted["hosts"] or [str((task_vars or {})["inventory_hostname"])]
        names = {host: folder_of(host) for host in hosts}
        if len(set(names.values())) != len(names):
            raise AnsibleActionFail("two hosts of the inventory would share a folder of results")
        begun = wanted["state"] == "begun"
        records = [_begun(host, wanted) for host in hosts] if begun else [_ended(hosts[0], wanted)]
        if not self._task.check_mode:
            for record in records:
                _write(os.path.join(wanted["results"], names[record["host"]]), record)
        result.update(changed=False, record=records[0])
        return result


def folder_of(host: str) -> str:
    """A host's name as the name of a folder: what could lead elsewhere is replaced."""
    name = _SAFE.sub("_", host)
    return name if name.strip(".") else f"_{name}"


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _begun(host: str, wanted: dict[str, Any]) -> dict[str, Any]:
    return _record(host, wanted, endings.NOT_REACHED, endings.MEANING[endings.NOT_REACHED])


def _record(host: str, wanted: dict[str, Any], outcome: str, cause: str, **more: Any) -> dict[str, Any]:
    started = wanted["started_at_s"] or time.time()
    record = {
        "schema": SCHEMA,
        "host": host,
        "outcome": outcome,
        "cause": cause,
        "playbook": wanted["playbook"],
        "job": wanted["job"],
        "started_at": _moment(started),
        "ended_at": None,
        "exit_code": None,
        "path": None,
        "sha256": None,
        "before": None,
        "before_sha256": None,
        "output": None,
        "pinproof": None,
        "clock_ahead_s": None,
        "notes": list(wanted["notes"]),
    }
    record.update(more)
    return record


def _ended(host: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """What became of one host: the first of its steps that went wrong says it."""
    place = os.path.join(wanted["results"], folder_of(host))
    look, run = wanted["look"], wanted["run"]
    outcome, cause = endings.of_task(look, began=False)
    notes = [wanted["stopped"]] if wanted["stopped"] and run else []
    came = {"path": _came(place, wanted["evidence"]), "before": _came(place, wanted["before_evidence"])}
    if outcome == endings.PASSED:
        if wanted["stopped"] and not run:
            outcome, cause = endings.NOT_REACHED, wanted["stopped"]
        elif run:
            outcome, cause = endings.of_task(run, began=True)
        else:
            outcome, cause = endings.NOT_REACHED, "the host answered, and no job was begun"
    if came["path"] is not None and outcome in (endings.FAILED, endings.UNDECIDED):
        cause = _worst_verdict(os.path.join(place, came["path"])) or cause
    if wanted["compare_exit_code"] and outcome in (endings.PASSED, endings.UNDECIDED, endings.FAILED):
        outcome, cause = _compared(outcome, cause, wanted)
    evidence = wanted["evidence"]
    if run.get("folder") and not evidence.get("folders"):
        why = "; ".join(evidence.get("left", [])) or endings.sentence(str(evidence.get("msg", ""))) or "nothing came"
        notes.append(f"the evidence did not come home and is in {run['folder']} on the node: {why}")
    notes += [str(left) for left in evidence.get("left", []) if evidence.get("folders")]
    ahead = _ahead(look, wanted["started_at_s"])
    if ahead is not None and abs(ahead) > wanted["clock_s"]:
        way = "ahead of" if ahead > 0 else "behind"
        notes.append(f"the node's clock is {abs(ahead):.0f} s {way} the controller's")
    record = _record(host, wanted, outcome, cause or endings.MEANING.get(outcome, outcome))
    record["ended_at"] = _moment(time.time())
    record["exit_code"] = run.get("exit_code")
    record["pinproof"] = run.get("version") or look.get("version")
    record["clock_ahead_s"] = ahead
    record["output"] = _output(place, run, evidence, write=True)
    for name, digest in (("path", "sha256"), ("before", "before_sha256")):
        record[name] = came[name]
        record[digest] = _digest(os.path.join(place, came[name])) if came[name] else None
    record["notes"] = [*record["notes"], *notes]
    return record


def _compared(outcome: str, cause: str, wanted: dict[str, Any]) -> tuple[str, str]:
    """What a comparison that was not green makes of a node whose session after the rollout ended."""
    said = " ".join(wanted["worse"].split())
    code = wanted["compare_exit_code"]
    if code == 1:
        return endings.FAILED, endings.sentence(f"worse than before the rollout: {said}")
    if outcome == endings.FAILED:
        return outcome, cause
    if code == 3:
        return endings.UNDECIDED, endings.sentence(f"against the session before the rollout: {said}")
    return endings.USAGE_ERROR, endings.sentence(f"the sessions before and after could not be compared: {said}")


def _ahead(look: dict[str, Any], before_s: float | None) -> float | None:
    """How far the node's clock is ahead, to within the time of its answer."""
    if before_s is None or "clock_s" not in look:
        return None
    return round(float(look["clock_s"]) - before_s, 1)


def _came(place: str, evidence: dict[str, Any]) -> str | None:
    """The session, or the result, that came home, relative to the host's folder."""
    folders = evidence.get("folders") or []
    found = evidence_in(folders[0]) if folders else None
    return None if found is None else os.path.relpath(found, place)


def _digest(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return None


def _worst_verdict(path: str) -> str:
    """The first verdict that is not as it should be, of a file that a node wrote; empty if it says none."""
    try:
        if os.path.getsize(path) > MOST_READ:
            return ""
        with open(path, "rb") as file:
            data = json.load(file)
        for outcome in (endings.FAILED, endings.UNDECIDED):
            bad = [one for one in data.get("verdicts", []) if one["outcome"] == outcome]
            if bad:
                more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
                return endings.sentence(f"{bad[0]['rule']} of {bad[0]['subject']}: {bad[0]['reason']}") + more
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return ""


def _output(place: str, run: dict[str, Any], evidence: dict[str, Any], *, write: bool) -> str | None:
    """Where what the job printed lies; where no evidence came, the controller has it and writes it."""
    folders = evidence.get("folders") or []
    if folders and os.path.exists(os.path.join(folders[0], "output.txt")):
        return os.path.relpath(os.path.join(folders[0], "output.txt"), place)
    if "stdout" not in run:
        return None
    name = os.path.join(folders[0] if folders else place, "output.txt")
    os.makedirs(os.path.dirname(name), exist_ok=True)
    with open(name, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write("\n".join(text for text in (run["stdout"], run.get("stderr", "")) if text))
    return os.path.relpath(name, place)


def _write(folder: str, record: dict[str, Any]) -> None:
    """Replace the host's record at once: a reader sees the old one or the new one."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "record.json")
    draft = f"{path}.{os.getpid()}"
    with open(draft, "w", encoding="utf-8") as file:
        file.write(json.dumps(record, indent=1, ensure_ascii=True) + "\n")
    os.replace(draft, path)
