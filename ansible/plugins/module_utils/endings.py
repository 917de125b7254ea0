"""How a job on a node ended: one word by cause, and one sentence. Pure; it also runs on nodes with an old Python.

The words are those of ``pinproof.record/1``. What is looked for in texts of pinproof and of Ansible is pinned by
tests that hold these against the real messages.
"""

from __future__ import annotations

import re
import signal

PASSED, FAILED, UNDECIDED, UNSUPPORTED = "passed", "failed", "undecided", "unsupported"
AT_WORK, NO_SPACE, TIMED_OUT, DIED = "at-work", "no-space", "timed-out", "died"
UNREACHABLE, NOT_REACHED, USAGE_ERROR = "unreachable", "not-reached", "usage-error"
MEANING = {
    PASSED: "every claim that applies here held",
    FAILED: "a claim was broken",
    UNDECIDED: "nothing was proved broken, and the evidence is not enough to call it proved",
    UNSUPPORTED: "this node lacks something that pinproof needs",
    AT_WORK: "other work is on this node, and the job would disturb it: nothing was started",
    NO_SPACE: "the node has too little free space",
    TIMED_OUT: "the job did not end within its time and was interrupted",
    DIED: "the job ended in a way that is no outcome",
    UNREACHABLE: "no connection to the node",
    NOT_REACHED: "the play ended before this host's turn came",
    USAGE_ERROR: "pinproof refused its input",
}
_BY_EXIT_CODE = {0: PASSED, 1: FAILED, 2: USAGE_ERROR, 3: UNDECIDED, 4: UNSUPPORTED, 70: DIED}
_FULL = ("No space left on device", "Disk quota exceeded")
# Of `pinproof conformance`: its refusal of a node that is in use, before and while it runs.
_AT_WORK = re.compile(r"this node is at work\b|every CPU of this node has an owner\b|\bhave an owner by now\b")
_NO_PYTHON = re.compile(
    r"ansible-core requires a minimum of Python|interpreter.*(not found|No such file)"
    r"|python\S*: (not found|No such file)"
    r"|(not found|No such file or directory)[^\n]*python|Module interpreter",
    re.IGNORECASE,
)
_LONGEST = 400
JOB_FOLDER = re.compile(r"[A-Za-z0-9_.-]+-[0-9]{8}T[0-9]{6}(\.[0-9]+)?Z(-before)?-[0-9a-f]{6}")
"""How the folder of a job is called on the node: nothing else below the work folder is fetched or removed."""


def sentence(text: str) -> str:
    """Return the first line that says something, without pinproof's own name before it, at most 400 characters."""
    lines = [line.strip() for line in str(text).splitlines()]
    said = next((line for line in lines if line and not line.startswith("pinproof: warning:")), "")
    said = re.sub(r"^(pinproof: |Task failed: |Action failed: )+", "", said)
    said = re.sub(r"^(Data could not be sent.* over ssh:|Failed to connect to the host via ssh:) +(?=\S)", "", said)
    said = said.rstrip(": ")
    return said if len(said) <= _LONGEST else said[: _LONGEST - 1] + "…"


def of_process(exit_code: int, stdout: str, stderr: str, timed_out_after_s: float | None = None) -> tuple[str, str]:
    """Return the word and the sentence for a process of pinproof that ended.

    :param exit_code: as :mod:`subprocess` gives it: negative for a signal.
    :param timed_out_after_s: seconds after which it was interrupted; ``None``: it ended by itself.
    """
    said = sentence(stderr)
    # What was proved broken before something else went wrong stays proved.
    if exit_code == 1:
        return FAILED, said or MEANING[FAILED]
    if timed_out_after_s is not None:
        return TIMED_OUT, f"the job did not end within {timed_out_after_s:g} s and was interrupted"
    if exit_code and any(text in stderr for text in _FULL):
        return NO_SPACE, said
    if exit_code == 4 and _AT_WORK.search(stderr):
        return AT_WORK, said
    if exit_code < 0:
        return DIED, f"the job was killed by {_signal(-exit_code)}"
    outcome = _BY_EXIT_CODE.get(exit_code, DIED)
    if outcome is DIED:
        why = "a defect of pinproof" if exit_code == 70 else "no exit code of an outcome"
        return DIED, f"the job ended with exit code {exit_code}, {why}" + (f": {said}" if said else "")
    return outcome, (MEANING[outcome] if outcome == PASSED or not said else said)


def of_task(result: dict, began: bool) -> tuple[str, str]:
    """Return the word and the sentence for what Ansible registered of a task on a node.

    :param began: the node had answered before, and this task was its job.
    """
    text = "\n".join(str(result.get(key) or "") for key in ("msg", "module_stderr", "module_stdout", "exception"))
    if "outcome" in result:
        return str(result["outcome"]), str(result.get("cause", ""))
    if any(full in text for full in _FULL):
        return NO_SPACE, f"the node's disk is full: {sentence(text)}"
    if result.get("unreachable"):
        if began:
            return DIED, f"the connection was lost while the job ran: {sentence(text)}"
        return UNREACHABLE, sentence(text) or MEANING[UNREACHABLE]
    if "timedout" in result or "within the requested time" in text or "expected time frame" in text:
        return TIMED_OUT, "the node did not answer within the time of the task" + (
            f": {sentence(text)}" if text else ""
        )
    if _NO_PYTHON.search(text):
        return UNSUPPORTED, f"the node has no Python that Ansible can use: {sentence(text)}"
    return DIED, f"the task ended without a result: {sentence(text) or 'nothing was said'}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
