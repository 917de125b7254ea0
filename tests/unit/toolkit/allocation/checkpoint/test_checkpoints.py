"""The state files: byte for byte, their checksums, versions and migrations."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.recordings import CAPTURES
from toolkit.allocation.checkpoint.cpu import (
    cpu_hashed_text,
    parse_cpu_checkpoint,
    read_cpu_checkpoint,
    restore_cpu_state,
    write_cpu_checkpoint,
)
from toolkit.allocation.checkpoint.devices import device_hashed_text, device_state_file
from toolkit.allocation.checkpoint.format import CheckpointError, UnknownVersionError, fnv32a
from toolkit.allocation.checkpoint.memory import (
    memory_hashed_text,
    read_memory_checkpoint,
    restore_memory_state,
    write_memory_checkpoint,
)
from toolkit.allocation.cpu.state import CpuState
from toolkit.allocation.memory.state import MemoryState
from toolkit.errors import InputError
from toolkit.model.cpuset import CpuSet
from toolkit.sources.kubelet.devices import kept_file

DATA = Path(__file__).resolve().parents[4] / "data" / "vectors" / "checkpoint-checksums.json"
EXAMPLES: list[dict[str, Any]] = json.loads(DATA.read_text(encoding="utf-8"))["examples"]
CPU = [e for e in EXAMPLES if e["file"] == "cpu_manager_state"]
MEMORY = [e for e in EXAMPLES if e["file"] == "memory_manager_state"]


def policy(example: dict[str, Any]) -> str:
    """The policy in an example's file."""
    return str(json.loads(example["content"])["policyName"])


@pytest.mark.parametrize("example", CPU, ids=range(len(CPU)))
def test_cpu_files_are_reproduced_byte_for_byte(example: dict[str, Any]) -> None:
    """Reading and writing gives the same text, the hashed text and the checksum of the real kubelet."""
    gate = example["PodLevelResourceManagers"]
    state = restore_cpu_state(example["content"], policy(example), pod_level=gate)
    assert state is not None
    entries = {uid: {n: str(cpus) for n, cpus in names.items()} for uid, names in state.entries.items()}
    hashed = cpu_hashed_text(state.policy_name, str(state.default), entries, state.pods if gate else None)

    assert example["content"] == write_cpu_checkpoint(state, pod_level=gate)
    assert example["hashed_text"] == hashed
    assert example["checksum"] == fnv32a(hashed)


@pytest.mark.parametrize("example", MEMORY, ids=range(len(MEMORY)))
def test_memory_files_are_reproduced_byte_for_byte(example: dict[str, Any]) -> None:
    """Reading and writing gives the same text, the hashed text and the checksum of the real kubelet."""
    gate = example["PodLevelResourceManagers"]
    state = restore_memory_state(example["content"], policy(example), pod_level=gate)
    hashed = memory_hashed_text(policy(example), state, pod_level=gate)

    assert example["content"] == write_memory_checkpoint(policy(example), state, pod_level=gate)
    assert example["hashed_text"] == hashed
    assert example["checksum"] == fnv32a(hashed)


def test_fnv_reference_values() -> None:
    """The published values of FNV-1a, 32 bit."""
    assert fnv32a("") == 0x811C9DC5
    assert fnv32a("a") == 0xE40C292C
    assert fnv32a("foobar") == 0xBF9CF968


def test_no_file_is_a_fresh_start() -> None:
    """A kubelet without a file starts with nothing."""
    assert restore_cpu_state(None, "static", pod_level=False) is None
    assert restore_memory_state(None, "Static", pod_level=False).nodes == {}


STATE = CpuState("static", CpuSet.parse("0,2-7"), {"p": {"c": CpuSet.parse("1")}})
TAIL = (
    ', please drain this node and delete the CPU manager checkpoint file "<kubelet-root-dir>/cpu_manager_state" '
    "before restarting Kubelet"
)


def refused(text: str, *, name: str = "static", pod_level: bool = False, **more: Any) -> str:
    """The message with which a kubelet refuses the text, without the constant parts."""
    with pytest.raises(CheckpointError) as raised:
        restore_cpu_state(text, name, pod_level=pod_level, **more)
    message = str(raised.value)
    assert message.startswith("could not restore state from checkpoint: ")
    assert message.endswith(TAIL)
    return message.removeprefix("could not restore state from checkpoint: ").removesuffix(TAIL)


def test_a_flipped_digit_is_found() -> None:
    """A change that the checksum does not know is refused."""
    text = write_cpu_checkpoint(STATE, pod_level=True).replace('"1"', '"2"')

    # The oldest version is tried last, and its complaint is the one that is told.
    assert "cannot unmarshal object" in refused(text, pod_level=True)
    empty = write_cpu_checkpoint(CpuState("static", CpuSet.parse("0-3")), pod_level=False).replace("0-3", "0-2")
    assert refused(empty) == "checkpoint is corrupted"


def test_the_older_kubelet_names_the_entry() -> None:
    """What a kubelet says that knows V1 alone last. Source: log of a real kubelet 1.36 with a V2 file of this form."""
    uid = "ad607831b8c74093d9062800179144df"
    text = f'{{"policyName":"static","defaultCpuSet":"0-3","entries":{{"{uid}":{{"c":"1"}}}},"checksum":1}}'

    assert refused(text) == (
        f"json: cannot unmarshal object into Go struct field CPUManagerCheckpointV1.entries.{uid} of type string"
    )


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"entries":{"p":{"c":1}}}', "number into Go struct field CPUManagerCheckpoint.entries.p.c of type string"),
        ('{"entries":{"p/~q":1}}', "number into Go struct field CPUManagerCheckpoint.entries.p~1~0q of type map["),
        ('{"entries":[]}', "array into Go struct field CPUManagerCheckpoint.entries of type map[string]map["),
        (
            '{"podEntries":{"p":{"cpuSet":1}}}',
            "number into Go struct field CPUManagerCheckpoint.podEntries.p.cpuSet of",
        ),
        ("[]", "array into Go value of type state.CPUManagerCheckpoint"),
    ],
)
def test_every_level_is_named(text: str, place: str) -> None:
    """The complaint leads from the outermost struct through fields and keys to the value."""
    with pytest.raises(CheckpointError) as raised:
        parse_cpu_checkpoint(text, 3)

    assert place in str(raised.value)


def test_places_in_memory_checkpoints() -> None:
    """The same for lists of blocks, by index, and for tables of nodes."""
    for text, place in (
        ('{"entries":{"p":{"c":[{"size":"1"}]}}}', "entries.p.c.0.size of type uint64"),
        ('{"entries":{"p":{"c":[{"numaAffinity":[0,"1"]}]}}}', "entries.p.c.0.numaAffinity.1 of type int"),
        ('{"machineState":{"0":{"memoryMap":{"memory":{"free":""}}}}}', "machineState.0.memoryMap.memory.free of type"),
        ('{"podEntries":{"p":{"memoryBlocks":{}}}}', "podEntries.p.memoryBlocks of type []state.Block"),
    ):
        with pytest.raises(InputError) as raised:
            read_memory_checkpoint(text, "state")
        assert f"into Go struct field MemoryManagerCheckpoint.{place}" in str(raised.value)


def test_a_lone_surrogate_is_what_go_makes_of_it() -> None:
    """Go reads U+FFFD for half a character; a checksum over it is one like any other."""
    found = read_cpu_checkpoint('{"policyName":"static\\ud800","defaultCpuSet":"0","checksum":1}', "state")

    assert (found.policy_name, found.checksum_ok) == ("static\ufffd", False)


def test_another_policy_is_refused() -> None:
    """The file belongs to the policy that wrote it."""
    text = write_cpu_checkpoint(STATE, pod_level=False)

    assert refused(text, name="none") == 'configured policy "none" differs from state checkpoint policy "static"'


def test_the_gate_may_be_switched_on_but_not_off() -> None:
    """A V2 file migrates to V3; a V3 file is unreadable without the gate, even without pod-level pods."""
    old, new = (write_cpu_checkpoint(STATE, pod_level=gate) for gate in (False, True))

    assert restore_cpu_state(old, "static", pod_level=True) == STATE
    refused(new, pod_level=False)


def test_without_the_gate_the_memory_file_of_a_gated_kubelet_is_refused() -> None:
    """It says what to do: drain the node and delete the file."""
    text = write_memory_checkpoint("Static", MemoryState(), pod_level=True)

    assert restore_memory_state(text, "Static", pod_level=True) == MemoryState()
    with pytest.raises(CheckpointError, match="drain this node and delete the memory manager checkpoint file"):
        restore_memory_state(text, "Static", pod_level=False)


def test_an_older_memory_file_is_read_with_the_gate_on() -> None:
    """KPL-18: switching the gate on migrates what a kubelet without it has written, entries and all."""
    old = [example for example in MEMORY if not example["PodLevelResourceManagers"]]
    assert any("entries" in example["content"] for example in old)

    for example in old:
        with_gate, without = (
            restore_memory_state(example["content"], policy(example), pod_level=gate) for gate in (True, False)
        )
        assert with_gate == without


def test_v1_entries_are_found_by_container_id() -> None:
    """V1 keys are container ids; without a checksum (0) it is accepted."""
    text = '{"policyName":"static","defaultCpuSet":"0,2-7","entries":{"abc":"1"},"checksum":0}'

    assert restore_cpu_state(text, "static", pod_level=False, containers={"abc": ("p", "c")}) == STATE
    assert refused(text) == (
        "failed to migrate checkpoint from v1 to v2: containerID 'abc' not found in initial containers list"
    )


def test_wrong_cpu_lists_are_named() -> None:
    """A CPU list that cannot be read is told with its owner."""
    text = '{"policyName":"static","defaultCpuSet":"0,2-7","entries":{"p":{"c":"x"}},"checksum":0}'

    assert refused(text) == (
        'could not parse cpuset "x" for container "c" in pod "p": strconv.Atoi: parsing "x": invalid syntax'
    )


def test_reading_for_judgement_tells_a_wrong_checksum() -> None:
    """A reader that judges wants the content and the fact that the checksum is wrong."""
    text = write_cpu_checkpoint(STATE, pod_level=True)
    good, bad = read_cpu_checkpoint(text, "f"), read_cpu_checkpoint(text.replace('"1"', '"2"'), "f")

    assert (good.version, good.checksum_ok, good.entries) == (3, True, {"p": {"c": "1"}})
    assert (bad.checksum_ok, bad.entries) == (False, {"p": {"c": "2"}})


def test_memory_refusals_name_the_file() -> None:
    """The Memory Manager's messages have its own words."""
    text = next(e["content"] for e in MEMORY if policy(e) == "None")
    with pytest.raises(CheckpointError) as raised:
        restore_memory_state(text, "Static", pod_level=False)

    assert str(raised.value) == (
        'could not restore state from checkpoint: [memorymanager] configured policy "Static" differs from state '
        'checkpoint policy "None", please drain this node and delete the memory manager checkpoint file '
        '"<kubelet-root-dir>/memory_manager_state" before restarting Kubelet'
    )


def test_state_files_of_real_nodes_are_reproduced() -> None:
    """Files captured from running kubelets: checksum right, and written again byte for byte."""
    seen = 0
    for archive in CAPTURES:
        with tarfile.open(archive) as tar:
            for member in tar:
                name = Path(member.name).name
                content = tar.extractfile(member) if name in ("cpu_manager_state", "memory_manager_state") else None
                if content is None:
                    continue
                text = content.read().decode()
                gate = "podEntries" in text or archive.name.startswith("B2-")
                if name == "cpu_manager_state":
                    found = read_cpu_checkpoint(text, name)
                    state = restore_cpu_state(text, found.policy_name, pod_level=gate)
                    assert state is not None
                    assert write_cpu_checkpoint(state, pod_level=gate) == text
                else:
                    memory = read_memory_checkpoint(text, name)
                    assert memory.checksum_ok
                    assert write_memory_checkpoint(memory.policy_name, memory.state, pod_level=gate) == text
                seen += 1

    assert seen > 40


PLR = CpuState("static", CpuSet.parse("0,4-7"), {"p": {"c": CpuSet.parse("1")}}, {"p": CpuSet.parse("1-3")})
V4 = (
    r'{"policyName":"static","defaultCpuSet":"0,4-7","entries":{"p":{"c":"1"}},"podEntries":{"p":{"cpuSet":"1-3"}},'
    r'"checksum":0,"data":"{\"policyName\":\"static\",\"defaultCpuSet\":\"0,4-7\",\"entries\":{\"p\":{\"c\":\"1\"}},'
    r'\"podEntries\":{\"p\":{\"cpuSet\":\"1-3\"}}}","dataChecksum":790629643}'
)
"""Made by hand from the source of v1.37; the checksum is computed as that of a real ``allocated_pods_state``."""


def test_v137_writes_the_content_as_text_whatever_the_gate() -> None:
    """V4: the fields of V3 with a checksum of 0, the same as text, and the text's checksum; V3 of memory likewise."""
    assert write_cpu_checkpoint(PLR, pod_level=True, wrapped=True) == V4
    assert restore_cpu_state(V4, "static", pod_level=True, wrapped=True) == PLR
    off = write_cpu_checkpoint(PLR, pod_level=False, wrapped=True)
    assert "podEntries" not in off
    assert json.loads(off)["dataChecksum"] == fnv32a("(string)" + json.loads(off)["data"])
    for example in MEMORY:
        gate = example["PodLevelResourceManagers"]
        state = restore_memory_state(example["content"], policy(example), pod_level=gate)
        written = write_memory_checkpoint(policy(example), state, pod_level=gate, wrapped=True)
        assert restore_memory_state(written, policy(example), pod_level=gate, wrapped=True) == state
        assert read_memory_checkpoint(written, "f").version == 3
        # A kubelet before it reads V1, whatever its gate: what pods have as a whole is lost.
        old = [restore_memory_state(written, policy(example), pod_level=one) for one in (True, False)]
        assert (old[0].entries, old[0].pod_entries) == (state.entries, {})
        assert old[0] == old[1]


def test_v137_starts_from_what_older_kubelets_wrote() -> None:
    """V3 and V2 are read with their own checksums, V1 no more; pods' sets are passed over with the gate off."""
    old, new = (write_cpu_checkpoint(PLR, pod_level=gate) for gate in (False, True))
    assert restore_cpu_state(new, "static", pod_level=True, wrapped=True) == PLR
    for text in (old, new, V4):
        assert restore_cpu_state(text, "static", pod_level=False, wrapped=True) == PLR._replace(pods={})
    one = '{"policyName":"static","defaultCpuSet":"0","entries":{"id":"1"},"checksum":0}'
    assert "CPUManagerCheckpointV2.entries" in refused(one, wrapped=True, containers={"id": ("p", "c")})


def test_an_older_kubelet_reads_v4_without_what_pods_have() -> None:
    """Downgraded: V4 is read as V2, whose checksum may be 0. Source: kubernetes issue 139069."""
    for gate in (False, True):
        assert restore_cpu_state(V4, "static", pod_level=gate) == PLR._replace(pods={})


def test_a_spoilt_v4_is_refused_and_not_read_as_an_older_one() -> None:
    """A kubelet v1.37 does not fall back from a file that has a content as text."""
    wrong = V4.replace("790629643", "790629644")
    assert refused(wrong, wrapped=True) == "could not load v4 checkpoint: checkpoint is corrupted"
    torn = V4.replace(r'"data":"{', r'"data":"')
    assert refused(torn, wrapped=True).startswith("could not load v4 checkpoint: failed to deserialize cpu manager ")
    assert not read_cpu_checkpoint(wrong, "f").checksum_ok
    with pytest.raises(InputError, match="failed to deserialize cpu manager checkpoint data"):
        read_cpu_checkpoint(torn, "f")
    memory = write_memory_checkpoint("Static", MemoryState(), pod_level=False, wrapped=True)
    spoilt = json.dumps(json.loads(memory) | {"dataChecksum": 1})
    with pytest.raises(CheckpointError, match="could not load v3 checkpoint: checkpoint is corrupted"):
        restore_memory_state(spoilt, "Static", pod_level=False, wrapped=True)


def test_allocations_are_what_containers_have_after_a_resize() -> None:
    """v1.38: first and resized sets of a container in the text; the fields beside it have no entries."""
    sets = {"p": {"a": {"original": "1", "resized": ""}, "b": {"original": "2", "resized": "2-3"}}}
    data = json.dumps({"policyName": "static", "defaultCpuSet": "0", "allocations": sets})
    outer = {"policyName": "static", "defaultCpuSet": "0", "checksum": 0}
    text = json.dumps(outer | {"data": data, "dataChecksum": fnv32a(f"(string){data}")})
    found = read_cpu_checkpoint(text, "f")
    assert (found.version, found.checksum_ok, found.entries) == (4, True, {"p": {"a": "1", "b": "2-3"}})


@pytest.mark.parametrize("kind", ["file", "data"])
def test_a_version_that_is_not_known_is_not_read_as_an_older_one(kind: str) -> None:
    """A field that no known version has, in the file or in its text, makes the whole unknown."""
    data = json.loads(V4)
    if kind == "file":
        data["shards"] = []
    else:
        data["data"] = data["data"][:-1] + ',"shards":[]}'
        data["dataChecksum"] = fnv32a("(string)" + data["data"])
    with pytest.raises(UnknownVersionError, match="of a version that is not known here: it has shards"):
        read_cpu_checkpoint(json.dumps(data), "f")
    memory = json.loads(write_memory_checkpoint("Static", MemoryState(), pod_level=False, wrapped=True))
    with pytest.raises(UnknownVersionError):
        read_memory_checkpoint(json.dumps(memory | {"shards": []}), "f")


TAKEN = (
    '{"Data":{"PodDeviceEntries":[{"PodUID":"651a6cc3832b6fc867fc08dd351e4206","ContainerName":"main","ResourceName":'
    '"pinproof.local/near","DeviceIDs":{"0":["n0"]},"AllocResp":""},{"PodUID":"d124bf2660e2c9298998c33225788bbb",'
    '"ContainerName":"main","ResourceName":"pinproof.local/near","DeviceIDs":{"0":["n1"]},"AllocResp":""}],'
    '"RegisteredDevices":{"pinproof.local/near":["n0","n1"],"pinproof.local/plain":["p0"]}},"Checksum":3234450306}'
)
"""As a kubelet v1.20.2 wrote it."""


def test_the_device_managers_checksum() -> None:
    """Of a real file, also where only the answer was kept of it; of one that was edited it does not fit."""
    found = device_state_file(TAKEN)
    assert (found.problem, found.checksum_ok, found.devices_count, found.twice) == ("", True, 2, ())
    for text, fits in ((TAKEN, True), (TAKEN.replace("n1", "n0"), False), (TAKEN[:99], False), ("[]", False)):
        kept = kept_file(text.encode(), "file")
        assert "AllocResp" not in json.dumps(kept)
        assert device_state_file(json.dumps(kept)).checksum_ok is fits
    assert device_state_file(TAKEN.replace('"n1"]},"All', '"n0"]},"All')).twice == ("pinproof.local/near n0",)


@pytest.mark.parametrize(
    ("ids", "dumped"),
    [
        ({"1": ["b"], "-1": ["a"], "10": None}, "(checkpoint.DevicesPerNUMA)map[-1:[a] 1:[b] 10:<nil>]"),
        (["a", "b"], "([]string)[a b]"),
        (None, "(checkpoint.DevicesPerNUMA)<nil>"),
    ],
)
def test_what_the_device_managers_checksum_is_of(ids: object, dumped: str) -> None:
    """The dump of the entries, of V1 files (lists of ids) with the names that these types had then."""
    entry = {"PodUID": "u", "ContainerName": "c", "ResourceName": "r", "DeviceIDs": ids, "AllocResp": "CgE="}
    text = (
        "(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)[{PodUID:(string)u "
        f"ContainerName:(string)c ResourceName:(string)r DeviceIDs:{dumped} AllocResp:([]uint8)[10 1]}}] "
        "RegisteredDevices:(map[string][]string)<nil>}"
    )
    data = {"PodDeviceEntries": [entry], "RegisteredDevices": None}
    assert device_hashed_text(data) == text
    assert device_state_file(json.dumps({"Data": data, "Checksum": fnv32a(text)})).checksum_ok is True


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "unexpected end of JSON input"),
        ('{"Data": []}', "cannot unmarshal array into Go struct field Data.Data of type checkpoint.checkpointData"),
        ('{"Data": {"PodDeviceEntries": [1]}}', "cannot unmarshal number"),
        ('{"Data": {"PodDeviceEntries": [{"DeviceIDs": {"x": []}}]}}', "cannot unmarshal number x"),
        ('{"Data": {"PodDeviceEntries": [{"DeviceIDs": {"0": [1]}}]}}', "of type []string"),
        ('{"Data": {"PodDeviceEntries": [{"AllocResp": "x"}]}, "Checksum": 1}', "illegal base64 data"),
        ('{"Data": {"RegisteredDevices": {"r": 1}}, "Checksum": 1}', "of type []string"),
    ],
)
def test_a_device_managers_file_that_is_none(text: str, problem: str) -> None:
    """A kubelet that starts takes nothing of it."""
    assert problem in device_state_file(text).problem


def test_a_capture_without_the_device_managers_checksum() -> None:
    """What was left out says nothing either way."""
    assert device_state_file('{"Data": {"PodDeviceEntries": [{"PodUID": "u"}]}}').checksum_ok is None
