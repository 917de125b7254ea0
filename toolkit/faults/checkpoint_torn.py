"""A kubelet dies between the two saves of one change (the text: ``torn.py``)."""

from __future__ import annotations

from pathlib import Path

from toolkit.apply import changes
from toolkit.apply.change import ChangeKind, HostChange
from toolkit.errors import InputError
from toolkit.faults.fault import AT_ONCE_S, Alternatives, Fault, Scope, When, Word
from toolkit.faults.injection import Host, Injection
from toolkit.faults.torn import Tear, torn
from toolkit.text import names


def prepare(_host: Host, injection: Injection) -> Alternatives:
    """Give ``state_file`` the content of after the first save."""
    path = Path(injection.state_file)
    if path.name != changes.STATE_FILES[0]:
        raise InputError("--state-file", injection.state_file or "none", f"a file named {changes.STATE_FILES[0]}")
    path = path.absolute()
    before = changes.read_state(path)
    if before is None:
        raise InputError("--state-file", f"{path} does not exist", "the kubelet's cpu_manager_state")
    after = torn(before, injection.tear, str(path))
    return ((HostChange(kind=ChangeKind.STATE_FILE, path=names.from_path(path), before=before, after=after),),)


def _doubly_owned(text: str) -> str:
    return torn(text, Tear.DOUBLY_OWNED, changes.STATE_FILES[0])


FAULT = Fault(
    id="checkpoint-torn",
    scope=Scope.FILE,
    title="the kubelet dies between its two saves",
    changes="--state-file loses (leaked) or keeps twice (doubly-owned) the CPUs of one container, checksum valid",
    field=("F6", "F21", "F22", "F41", "F42"),
    rules=("checkpoint",),
    prepare=prepare,
    # Of a node that does not exist: before the target's CPUs left the shared pool.
    words=(Word(word="torn-state", when=When.STATE_FILES, watch_s=AT_ONCE_S, rewrite=_doubly_owned),),
)
