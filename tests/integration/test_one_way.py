"""The way of one scenario through the program, and of one container that a watch follows: every stage is entered once,
in the order of ``docs/principles.md``.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
from click.testing import CliRunner

from tests.unit.toolkit.sources.kubelet.followed_node import DB, WEB, Node, made_node
from tests.unit.toolkit.sources.made_node import KUBEPODS, write
from toolkit.allocation.checkpoint.memory import write_memory_checkpoint
from toolkit.allocation.memory.state import MemoryState
from toolkit.cli.run import command
from toolkit.host import kept_files
from toolkit.host.kept_files import KeptFiles
from toolkit.session.following.layer_history import LayerHistory
from toolkit.session.following.lives import Lives
from toolkit.session.following.source_reader import SourceReader
from toolkit.sources.kubelet.follow import KubeletSource

pytestmark = [
    pytest.mark.integration,
    pytest.mark.beside,
    pytest.mark.skipif(os.geteuid() != 0, reason="a run needs root"),
]
PROJECT = Path(__file__).resolve().parents[2]
PACKAGES = ("toolkit/", "probes/", "validators/")
SCENARIO = PROJECT / "validators/scenarios/quota-050-set.yaml"
WAY = (
    "toolkit/scenario_file.py:parse_scenario",
    "toolkit/session/planning/planned.py:plan_all",
    "toolkit/session/planning/from_plan.py:sandbox_request",
    "toolkit/apply/sandbox.py:sandbox",
    "toolkit/session/planning/from_plan.py:claim_set",
    "toolkit/session/engine/observe.py:open",
    "toolkit/session/engine/acts.py:watch",
    "toolkit/session/engine/observe.py:close",
    "probes/build.py:build",
    "toolkit/store.py:run_texts",
    "toolkit/store.py:parse_run",
    "validators/registry.py:judge_and_ask",
    "toolkit/store.py:with_result",
    "toolkit/report/table.py:render_table",
    "toolkit/store.py:write_run",
)
"""Where each stage begins. The evidence of the canaries is built beside that of the claims, by the same function."""


FOLLOWED = (
    "toolkit/session/following/source_reader.py:first",
    "toolkit/sources/kubelet/follow.py:read",
    "toolkit/sources/kubelet/files/live.py:__init__",
    "toolkit/sources/kubelet/files/live.py:read_states",
    "toolkit/sources/kubelet/files/cgroups.py:cpusets",
    "toolkit/sources/kubelet/files/live.py:read_configuration",
    "toolkit/sources/kubelet/files/sockets.py:runtime_files",
    "toolkit/sources/kubelet/reading.py:reading_of",
    "toolkit/sources/kubelet/promises/node.py:node_claims",
    "toolkit/sources/kubelet/subjects.py:subjects",
    "toolkit/sources/kubelet/promises/pod.py:pod_promises",
    "toolkit/sources/kubelet/held.py:followed_of",
    "toolkit/sources/kubelet/follow.py:reading",
    "toolkit/session/following/lives.py:of",
    "toolkit/session/following/layer_history.py:read",
)
"""The same of a reading of a kubelet's node in which a container came: bytes, a reading, claims, what is held, what is
written down. The pods' promises are made one after the other."""
MADE = slice(7, 12)
"""What of these is made of what was read: nothing of it where all that was read says the same."""
MOST_FILES_OF_THE_NEW, MOST_FILES, MOST_CALLS = 58, 33, 370
"""That a reading enters: one in which a container came or went; one in which nothing changed, with all its calls."""
THIRD = "dd" * 32


@contextmanager
def called(take: Callable[[str, FrameType], None]) -> Iterator[None]:
    """Hand over each call of a function of this project by this thread: ``FILE:NAME``, and its frame."""
    codes: dict[object, str] = {}

    def call(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event != "call":
            return
        if code not in codes:
            name = code.co_filename.removeprefix(f"{PROJECT}/")
            codes[code] = f"{name}:{code.co_name}" if name.startswith(PACKAGES) else ""
        if codes[code]:
            take(codes[code], frame)

    sys.setprofile(call)
    try:
        yield
    finally:
        sys.setprofile(None)


@contextmanager
def followed(entered: list[str], way: tuple[str, ...] = WAY) -> Iterator[None]:
    """Write down each time that one of these functions is called by this thread."""
    frames: set[FrameType] = set()

    def take(name: str, frame: FrameType) -> None:
        if name in way and frame not in frames:  # what is left and resumed (a context manager) is called again
            frames.add(frame)
            entered.append(name)

    with called(take):
        yield


def once(entered: list[str]) -> list[str]:
    """What is entered several times in a row, once."""
    return [one for number, one in enumerate(entered) if entered[number - 1 : number] != [one] or not number]


def test_every_stage_is_entered_once_and_in_order(tmp_path: Path) -> None:
    """From the scenario's file to the saved run; nothing is judged, printed or saved twice, nothing patched between."""
    entered: list[str] = []
    with followed(entered):
        done = CliRunner().invoke(command, [str(SCENARIO), "--duration", "1", "--output", str(tmp_path)])

    assert done.exit_code in (0, 3), done.output  # a busy machine may leave something undecided
    assert once(entered) == list(WAY)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Node, SourceReader]]:
    """A node of two runs whose files are all there, read until nothing is new."""
    monkeypatch.setattr(kept_files, "_is_cgroup", lambda _folder: True)
    with made_node() as node, KeptFiles() as kept:
        memory = write_memory_checkpoint("None", MemoryState(), pod_level=False)
        write(node.root, "var/lib/kubelet/memory_manager_state", memory)
        for folder in (
            "",
            "/podu-db",
            f"/podu-db/{DB}",
            "/podu-web",
            f"/podu-web/{WEB}",
            "/podu-third",
            f"/podu-third/{THIRD}",
        ):
            write(node.root, f"{KUBEPODS}{folder}/memory.max", "max\n")
            write(node.root, f"{KUBEPODS}{folder}/cpu.max", "max 100000\n")
            write(node.root, f"{KUBEPODS}{folder}/cpuset.cpus", "0-3\n")
        node.runs(DB, "db", "main", "2-3")
        node.runs(WEB, "web", "app", "0-1")
        source = KubeletSource(node.source._places, kept=kept)
        reader = SourceReader(source, Lives("kubelet", None), LayerHistory("kubelet"))
        for _ in range(4):
            reader.first()
        yield node, reader


def test_a_container_that_comes_goes_one_way(watched: tuple[Node, SourceReader]) -> None:
    """From the files of its node to what is stated of it; each stage is entered once."""
    node, reader = watched
    node.runs(THIRD, "third", "main", "0-1")
    entered: list[str] = []
    files: set[str] = set()
    with followed(entered, FOLLOWED):
        reading = reader.first()
    assert once(entered) == list(FOLLOWED)
    assert "third/main" in {claim.name for claim in reading.claims.claims}

    node.ends(THIRD)
    with called(lambda name, _frame: files.add(name.partition(":")[0])):
        reader.first()
    assert len(files) <= MOST_FILES_OF_THE_NEW, sorted(files)


def test_where_nothing_changed_nothing_is_made_again(watched: tuple[Node, SourceReader]) -> None:
    """All is read and asked for; what says the same is not parsed, joined or promised anew."""
    _, reader = watched
    calls = Counter[str]()
    with called(lambda name, _frame: calls.update([name])):
        reader.first()
    files = {name.partition(":")[0] for name in calls}
    assert not calls.keys() & set(FOLLOWED[MADE])
    assert len(files) <= MOST_FILES, sorted(files)
    assert calls.total() <= MOST_CALLS, calls.most_common(20)
