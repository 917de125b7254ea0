#!/usr/bin/python
"""Run one job of pinproof on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pinproof
short_description: Run one job of pinproof on a node
version_added: 0.1.0
description:
  - Runs a job of the command C(pinproof) that the role P(pinproof.node.pinproof_install#role) put on the node, within
    a time, in a folder of its own, and says how it ended in one word by cause.
  - Free space is looked at before a job, and a job that would not fit is not started.
  - A job changes nothing on the node that it does not undo; O(job=cleanup) is the only one that reports a change.
options:
  job:
    description:
      - V(look) runs nothing that loads the node. It asks for the installed version, free space, the node's clock and
        folders that earlier jobs left, and with O(doctor=true) what C(pinproof doctor) finds. All of it is also a fact.
      - V(check) judges what runs on the node, read-only (C(pinproof watch)).
      - V(conformance) makes cgroups and load and judges them, on nodes without workloads (C(pinproof conformance)).
      - V(cleanup) undoes what jobs that were killed left behind (C(pinproof cleanup)).
    type: str
    required: true
    choices: [look, check, conformance, cleanup]
  command:
    description: The pinproof command on the node.
    type: path
    default: /opt/pinproof/venv/bin/pinproof
  source:
    description: Where the promises come from that O(job=check) judges; V(claims) is the document in O(claims).
    type: str
    default: kubelet
    choices: [kubelet, podman, docker, systemd, slurm, claims]
  claims:
    description: A claims document, for O(source=claims).
    type: str
    default: ""
  duration_s:
    description: Seconds that O(job=check) watches.
    type: float
    default: 30
  select:
    description: Id of the only scenario that O(job=conformance) runs; empty for the core of the catalogue.
    type: str
    default: ""
  arguments:
    description: More arguments for the job, as C(pinproof watch --help) or C(pinproof conformance --help) lists them.
    type: list
    elements: str
    default: []
  timeout_s:
    description:
      - Seconds after which the job is interrupted. It then undoes what it made; O(grace_s) later it is killed, and
        C(pinproof cleanup) undoes it.
    type: int
    default: 1800
  grace_s:
    description: Seconds that a job that was interrupted has to undo what it made.
    type: int
    default: 60
  work_dir:
    description: Folder on the node; each job gets a new one below it.
    type: path
    default: /var/tmp/pinproof
  id:
    description: What the job's folder is called; six characters are added. Default is the job and the node's clock.
    type: str
    default: ""
  min_free_mib:
    description: MiB that must be free below O(work_dir) before a job is started.
    type: int
    default: 64
  doctor:
    description: Whether O(job=look) also runs C(pinproof doctor).
    type: bool
    default: false
  accept:
    description: The outcomes that do not fail the task.
    type: list
    elements: str
    default: [passed]
attributes:
  check_mode:
    support: full
    description: Runs no job; says what would run, and what O(job=cleanup) would undo. O(job=look) looks.
  diff_mode:
    support: full
    description: Of O(job=cleanup) the journals of runs before and after; of a job the folder that it leaves.
  facts:
    support: full
    description: O(job=look) returns what it found as the fact C(pinproof).
  async:
    support: full
    description: A job is a process of the node; what it leaves in its folder stays where the connection is lost.
  platform:
    support: full
    platforms: linux
    description: Linux with eBPF.
seealso:
  - module: pinproof.node.pinproof_evidence
  - module: pinproof.node.pinproof_record
author:
  - The pinproof authors (@pinproof)
"""

EXAMPLES = r"""
- name: Judge the pods of this kubelet for a minute
  pinproof.node.pinproof:
    job: check
    source: kubelet
    duration_s: 60
  become: true

- name: The whole catalogue, in the background
  pinproof.node.pinproof:
    job: conformance
    arguments: [--full]
    timeout_s: 3600
  become: true
  async: 3720
  poll: 15

- name: What is on the node
  pinproof.node.pinproof:
    job: look
    doctor: true
  become: true

- name: Say what was found
  ansible.builtin.debug:
    var: ansible_facts.pinproof
"""

RETURN = r"""
outcome:
  description: How it ended, a word of C(pinproof.record/1) such as V(passed), V(failed), V(at-work) or V(no-space).
  type: str
  returned: always
cause:
  description: Why, in one sentence.
  type: str
  returned: always
exit_code:
  description: Of the job.
  type: int
  returned: when a job ended
stdout:
  description: What it printed; of more than a mebibyte the beginning and the end.
  type: str
  returned: when a job ended
stderr:
  description: The same of standard error.
  type: str
  returned: when a job ended
folder:
  description: The job's folder on the node.
  type: str
  returned: when a job was started
argv:
  description: The command that ran or would run.
  type: list
  elements: str
  returned: when there is a job
version:
  description: Of the installed pinproof; none where it is missing or does not start.
  type: str
  returned: always
clock_s:
  description: The node's clock, seconds since 1970.
  type: float
  returned: always
free_mib:
  description: MiB that are free where the jobs' folders lie.
  type: int
  returned: always
ansible_facts:
  description: With O(job=look), all of this as one fact, and the folders that earlier jobs left.
  type: dict
  returned: with O(job=look)
"""

import contextlib
import json
import os
import platform
import secrets
import signal
import subprocess
import tempfile
import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pinproof.node.plugins.module_utils import endings

MIB = 1024 * 1024
MOST = MIB
JOURNALS = "/run/pinproof"


def main() -> None:
    """Read the arguments and do the job."""
    module = AnsibleModule(
        argument_spec={
            "job": {"type": "str", "required": True, "choices": ["look", "check", "conformance", "cleanup"]},
            "command": {"type": "path", "default": "/opt/pinproof/venv/bin/pinproof"},
            "source": {
                "type": "str",
                "default": "kubelet",
                "choices": ["kubelet", "podman", "docker", "systemd", "slurm", "claims"],
            },
            "claims": {"type": "str", "default": ""},
            "duration_s": {"type": "float", "default": 30},
            "select": {"type": "str", "default": ""},
            "arguments": {"type": "list", "elements": "str", "default": []},
            "timeout_s": {"type": "int", "default": 1800},
            "grace_s": {"type": "int", "default": 60},
            "work_dir": {"type": "path", "default": "/var/tmp/pinproof"},
            "id": {"type": "str", "default": ""},
            "min_free_mib": {"type": "int", "default": 64},
            "doctor": {"type": "bool", "default": False},
            "accept": {"type": "list", "elements": "str", "default": ["passed"]},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    parts = wanted["work_dir"].split("/")
    if not wanted["work_dir"].startswith("/") or len([part for part in parts if part]) < 2 or ".." in parts:
        module.fail_json(
            outcome=endings.USAGE_ERROR,
            cause=f"work_dir is {wanted['work_dir']}; expected an absolute path at least two levels deep",
            msg=f"work_dir is {wanted['work_dir']}; expected an absolute path at least two levels deep",
        )
    found = {
        "changed": False,
        "version": _version(wanted["command"]),
        "clock_s": time.time(),
        "free_mib": free_mib(wanted["work_dir"]),
        "python": platform.python_version(),
    }
    if wanted["job"] == "look":
        end = _look(module, found)
    elif wanted["job"] == "cleanup":
        end = _cleanup(module, found)
    else:
        end = _job(module, found)
    found.update(end)
    if found["outcome"] in wanted["accept"]:
        module.exit_json(**found)
    module.fail_json(msg=f"{found['outcome'].upper()}: {found['cause']}", **found)


def free_mib(path: str) -> int:
    """MiB that this user may still write where a folder lies, or will lie."""
    while not os.path.exists(path) and path != "/":
        path = os.path.dirname(path)
    found = os.statvfs(path)
    # Without an inode left nothing can be written either; a file system that counts none has no limit.
    if found.f_files and not found.f_favail:
        return 0
    return found.f_bavail * found.f_frsize // MIB


def argv_of(wanted: dict) -> list:
    """The command of a job."""
    if wanted["job"] == "check":
        source = ["--claims", "claims.yaml"] if wanted["source"] == "claims" else [f"--{wanted['source']}"]
        own = ["watch", *source, "--duration", f"{wanted['duration_s']:g}"]
    elif wanted["job"] == "conformance":
        selected = ["--select", wanted["select"]] if wanted["select"] else []
        own = ["conformance", "--junit", "junit.xml", "--html", "report.html", *selected]
    else:
        own = ["cleanup"]
    return [wanted["command"], *own, *wanted["arguments"]]


def _run(argv: list, timeout_s: float = 60) -> tuple:
    """Run a short command that writes nothing, not even Python's bytecode; exit code, output and errors.

    127: it cannot be started.
    """
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, env=env, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 127, "", str(error)
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def _version(command: str):
    code, said, _ = _run([command, "--version"])
    first = said.splitlines()[0].split() if code == 0 and said.strip() else []
    return first[-1] if first else None


def _missing(found: dict, command: str):
    """What is said where pinproof cannot be started, or nothing."""
    if found["version"] is not None:
        return None
    why = (
        "is not there"
        if not os.path.exists(command)
        else f"does not start: {endings.sentence(_run([command, '--version'])[2])}"
    )
    cause = (
        f"{command} {why}; the play install puts it there, and refuses a Python older than 3.11 "
        f"(the one that Ansible found here: {found['python']})"
    )
    return {"outcome": endings.UNSUPPORTED, "cause": cause}


def _full(found: dict, wanted: dict):
    """What is said where a job would not fit, or nothing."""
    if found["free_mib"] >= wanted["min_free_mib"]:
        return None
    cause = f"{found['free_mib']} MiB are free below {wanted['work_dir']}, and a job needs {wanted['min_free_mib']} MiB"
    return {"outcome": endings.NO_SPACE, "cause": cause}


def _look(module: AnsibleModule, found: dict) -> dict:
    wanted = module.params
    end = _missing(found, wanted["command"]) or _full(found, wanted) or {}
    work = wanted["work_dir"]
    with contextlib.suppress(OSError):
        found["left"] = sorted(name for name in os.listdir(work) if endings.JOB_FOLDER.fullmatch(name))
    if wanted["doctor"] and found["version"] is not None:
        code, said, complaint = _run([wanted["command"], "doctor", "--json"], 120)
        try:
            found["doctor"] = json.loads(said)
        except ValueError:
            found["doctor"] = None
        if code and not end:
            lacks = [
                one
                for one in (found["doctor"] or {}).get("capabilities", [])
                if not one["available"] and "run" in one["needed_by"]
            ]
            named = "; ".join(f"{one['name']}: {one['detail']}" for one in lacks)
            end = {"outcome": endings.UNSUPPORTED, "cause": endings.sentence(named or complaint or said)}
    facts = {name: value for name, value in found.items() if name != "changed"}
    end = end or {"outcome": endings.PASSED, "cause": "the node answers, and a job can run"}
    return {**end, "ansible_facts": {"pinproof": {**facts, **end}}}


def _journals() -> list:
    """What dead or live runs have written down before they made it."""
    try:
        return sorted(os.listdir(JOURNALS))
    except OSError:
        return []


def _cleanup(module: AnsibleModule, found: dict) -> dict:
    before = _journals()
    argv = argv_of(module.params)
    missing = _missing(found, module.params["command"])
    if missing:
        return {**missing, "argv": argv}
    if module.check_mode:
        cause = f"would run {' '.join(argv)}: {len(before)} journals in {JOURNALS}"
        return {
            "outcome": endings.PASSED,
            "cause": cause,
            "argv": argv,
            "changed": bool(before),
            "diff": _diff(before, []),
        }
    code, said, complaint = _run(argv, module.params["timeout_s"])
    after = _journals()
    outcome, cause = endings.of_process(code, said, complaint)
    end = {"outcome": outcome, "cause": cause, "exit_code": code, "stdout": said, "stderr": complaint, "argv": argv}
    return {**end, "changed": before != after, "diff": _diff(before, after)}


def _diff(before: list, after: list) -> dict:
    def lines(names: list) -> str:
        return "".join(f"{name}\n" for name in names)

    return {"before_header": JOURNALS, "after_header": JOURNALS, "before": lines(before), "after": lines(after)}


def _job(module: AnsibleModule, found: dict) -> dict:
    wanted = module.params
    argv = argv_of(wanted)
    refused = _missing(found, wanted["command"]) or _full(found, wanted)
    if wanted["job"] == "check" and wanted["source"] == "claims" and not wanted["claims"].strip():
        refused = {"outcome": endings.USAGE_ERROR, "cause": "source is claims, and the claims document is empty"}
    if refused:
        return {**refused, "argv": argv}
    if module.check_mode:
        cause = f"would run {' '.join(argv)}"
        return {"outcome": endings.PASSED, "cause": cause, "argv": argv, "diff": _job_diff(wanted["work_dir"])}
    try:
        folder = _folder(wanted)
    except OSError as error:
        outcome = endings.NO_SPACE if "space" in str(error) else endings.USAGE_ERROR
        return {"outcome": outcome, "cause": str(error), "argv": argv}
    began = time.time()
    code, said, complaint, late = _until(argv, folder, wanted["timeout_s"], wanted["grace_s"])
    outcome, cause = endings.of_process(code, said, complaint, wanted["timeout_s"] if late else None)
    end = {
        "outcome": outcome,
        "cause": cause,
        "exit_code": code,
        "argv": argv,
        "folder": folder,
        "stdout": said,
        "stderr": complaint,
    }
    if outcome in (endings.DIED, endings.TIMED_OUT):
        end["cleanup"] = _run([wanted["command"], "cleanup"])[0]
    # For what collects it later; a disk that is full by now takes nothing away from what is returned.
    with contextlib.suppress(OSError):
        _note(folder, "output.txt", said + ("\n" if complaint else "") + complaint)
        ended = {"job": wanted["job"], "argv": argv, "exit_code": code, "outcome": outcome, "cause": cause}
        _note(folder, "job.json", json.dumps({**ended, "began_s": began, "ended_s": time.time()}, indent=1) + "\n")
    return {**end, "diff": _job_diff(folder)}


def _job_diff(folder: str) -> dict:
    return {"before": "", "after": f"{folder}/\n", "after_header": "evidence on the node, until it is brought home"}


def _note(folder: str, name: str, text: str) -> None:
    with open(os.path.join(folder, name), "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)


def _folder(wanted: dict) -> str:
    os.umask(0o077)
    os.makedirs(wanted["work_dir"], exist_ok=True)
    name = wanted["id"] or f"{wanted['job']}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    folder = os.path.join(wanted["work_dir"], f"{os.path.basename(name)}-{secrets.token_hex(3)}")
    os.mkdir(folder)
    if wanted["job"] == "check" and wanted["source"] == "claims":
        _note(folder, "claims.yaml", wanted["claims"])
    return folder


def _until(argv: list, folder: str, timeout_s: float, grace_s: float) -> tuple:
    """Run a job within a time: exit code, output, errors, whether it was interrupted.

    SIGINT lets it undo what it made; only one that ignores that is killed, with all that it started. What it says goes
    through memory (no disk can be too full for a verdict).
    """
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryFile(dir=memory) as out, tempfile.TemporaryFile(dir=memory) as err:
        try:
            job = subprocess.Popen(
                argv,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                env={**os.environ, "LC_ALL": "C.UTF-8", "PINPROOF_RUNS": "runs"},
            )
        except OSError as error:
            return 127, "", str(error), False
        late = False
        try:
            job.wait(timeout_s)
        except subprocess.TimeoutExpired:
            late = True
            job.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                job.wait(grace_s)
        finally:
            if job.poll() is None:
                with contextlib.suppress(OSError):
                    os.killpg(job.pid, signal.SIGKILL)
                job.wait()
        return job.returncode, _text(out), _text(err), late


def _text(file) -> str:
    """What was written, as text; of very much the beginning and the end."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if size <= MOST:
        return file.read().decode("utf-8", "replace")
    first = file.read(MOST // 2)
    file.seek(size - MOST // 2)
    left_out = f"\n[{size - MOST} bytes left out]\n"
    return first.decode("utf-8", "replace") + left_out + file.read().decode("utf-8", "replace")


if __name__ == "__main__":
    main()
