"""Captures from elsewhere: hostile archives, truncated parts, other drivers' paths. One line, or a finding."""

from __future__ import annotations

import io
import json
import random
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from toolkit.cli.claims import command as claims_command
from toolkit.errors import InputError
from toolkit.model.claims import SubjectKind
from toolkit.model.node_reading import UNIFIED, NodeReading
from toolkit.sources.claims_yaml import claims_yaml
from toolkit.sources.kubelet.document import claims_data
from toolkit.sources.kubelet.evidence import RULES, evidence_of
from toolkit.sources.kubelet.files.capture import read_bundle_files
from toolkit.sources.kubelet.pod_paths import expand, place_of
from toolkit.sources.kubelet.promises.node import node_claims
from toolkit.sources.kubelet.reading import read_capture, read_live, reading_of
from toolkit.sources.kubelet.subjects import subjects
from toolkit.sources.places import Places
from validators.registry import judge, rule_named

DATA = Path(__file__).parents[3] / "data" / "captures"
ID = "ab" * 32


def _tar(path: Path, name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> Path:
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.type, member.linkname, member.size = kind, link, 2 if kind == tarfile.REGTYPE else 0
        archive.addfile(member, io.BytesIO(b"{}"))
    return path


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil"])
def test_a_name_that_leaves_the_archive_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="inside the archive") as error:
        read_capture(_tar(tmp_path / "x.tar.gz", name))
    assert "\n" not in str(error.value)


def test_links_are_not_followed(tmp_path: Path) -> None:
    archive = _tar(tmp_path / "x.tar.gz", "kubelet/cpu_manager_state", tarfile.SYMTYPE, "/etc/hostname")
    assert read_bundle_files(archive) == {}
    folder = tmp_path / "kubelet"
    folder.mkdir()
    (folder / "cpu_manager_state").symlink_to("/etc/hostname")
    assert "kubelet/cpu_manager_state" not in read_bundle_files(tmp_path)


@pytest.mark.parametrize("length", [0, 1, 10, 500, 3000])
def test_a_truncated_archive_is_one_line(tmp_path: Path, length: int) -> None:
    whole = sorted(DATA.glob("*.tar.gz"))[0].read_bytes()
    path = tmp_path / "cut.tar.gz"
    path.write_bytes(whole[:length])
    with pytest.raises(InputError) as error:
        read_capture(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("compression", ["", "gz", "xz"])
def test_an_archive_that_is_cut_anywhere_is_one_line(tmp_path: Path, compression: str) -> None:
    """Half a capture is no smaller node: a cut between two files, or behind the last one, is noticed as well."""
    path = tmp_path / f"cut.tar.{compression}"
    with tarfile.open(path, f"w:{compression}") as archive:
        for number in range(6):
            member = tarfile.TarInfo(f"cgroup/{number}")
            member.size = 100 * number
            archive.addfile(member, io.BytesIO(bytes(range(100)) * number))
    whole = path.read_bytes()
    # Zeros behind the first block of the end are padding, which tar programs fill up to different sizes.
    needed = 6 * 512 + 5 * 512 + 512 if not compression else len(whole)
    assert len(read_bundle_files(path)) == 6
    for length in range(0, needed, 7 if compression else 64):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError) as error:
            read_bundle_files(path)
        assert "\n" not in str(error.value)


def test_a_broken_header_in_the_middle_is_no_end(tmp_path: Path) -> None:
    """Python's reader takes it for the archive's end."""
    path = tmp_path / "broken.tar"
    with tarfile.open(path, "w") as archive:
        for name in ("cgroup/a", "cgroup/b"):
            archive.addfile(tarfile.TarInfo(name))
    content = path.read_bytes()
    path.write_bytes(content[:512] + b"x" + content[513:])
    with pytest.raises(InputError, match="ends in the middle"):
        read_bundle_files(path)


@pytest.mark.parametrize(("second", "refused"), [(b"b", True), (b"a", False)], ids=["other", "same"])
@pytest.mark.parametrize("name", ["pods.json", "./pods.json"])
def test_two_members_of_one_name_that_differ(tmp_path: Path, name: str, second: bytes, *, refused: bool) -> None:
    """Which of the two was on the node is not known."""
    path = tmp_path / "two.tar"
    with tarfile.open(path, "w") as archive:
        for called, data in (("pods.json", b"a"), (name, second)):
            info = tarfile.TarInfo(called)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    if not refused:
        assert read_bundle_files(path) == {"pods.json": b"a"}
        return
    with pytest.raises(InputError, match=r"two members named pods\.json, which differ"):
        read_bundle_files(path)


def _judged(reading: NodeReading) -> None:
    node = node_claims(reading)
    json.dumps(claims_data(node))
    claims_yaml(node.claims)
    claims, evidence = evidence_of(reading, node)
    judge(claims, evidence, [rule_named(name) for name in RULES])


@pytest.mark.parametrize("seed", range(40))
def test_damaged_parts_never_raise(seed: int) -> None:
    """Bytes changed, cut or doubled in every part: a finding or a missing part."""
    rng = random.Random(seed)
    path = rng.choice(sorted(DATA.glob("*.tar.gz")))
    files = dict(read_bundle_files(path))
    for name in rng.sample(sorted(files), min(6, len(files))) + [n for n in files if not n.startswith("cgroup/")]:
        data = bytearray(files[name])
        for _ in range(rng.randrange(0, 4)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        files[name] = bytes(data[: rng.randrange(len(data) + 1)] if rng.random() < 0.3 else data)
    if rng.random() < 0.5:
        files.pop(rng.choice(sorted(files)))
    _judged(reading_of(files))


def test_each_missing_part_is_said_with_its_cost() -> None:
    files = read_bundle_files(sorted(DATA.glob("D-*.tar.gz"))[0])
    for part, name in (("containers", "node.json"), ("pods", "pods.json"), ("cpu_state", "kubelet/cpu_manager_state")):
        node = node_claims(reading_of({key: data for key, data in files.items() if key != name}))
        assert any(row.part == part and ":" in row.reason for row in node.missing)
        _judged(reading_of({key: data for key, data in files.items() if key != name}))


@pytest.mark.parametrize(
    ("path", "uid", "own"),
    [
        (f"/kubepods/burstable/podu-1/{ID}", "u-1", ID),
        (f"/kubepods/podu-1/{ID}", "u-1", ID),
        (
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podu_1.slice/cri-containerd-{ID}.scope",
            "u-1",
            ID,
        ),
        (f"/kubepods.slice/kubepods-podu_1.slice/crio-{ID}.scope", "u-1", ID),
        (f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podu_1.slice/cri-containerd-{ID}.scope", "u-1", ID),
        ("/kubepods/burstable", None, None),
        ("/system.slice/containerd.service", None, None),
        (f"/kubepods/podu-1/{ID}/container", None, None),
    ],
)
def test_paths_of_both_drivers(path: str, uid: str | None, own: str | None) -> None:
    place = place_of(path)
    assert (uid, own) == (None, None) if place is None else (place.pod_uid, place.id) == (uid, own)


def test_a_systemd_path_of_the_runtime_is_spelt_out() -> None:
    assert expand(f"kubepods-burstable-podu.slice:cri-containerd:{ID}") == (
        f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podu.slice/cri-containerd-{ID}.scope"
    )


def test_a_live_tree_of_the_systemd_driver(tmp_path: Path) -> None:
    """Files only: names come from log symlinks, kinds from what there is, the unknown is said."""
    kubelet, cgroup, proc, logs = (tmp_path / name for name in ("kubelet", "cgroup", "proc", "logs"))
    folder = cgroup / "kubepods.slice/kubepods-podu_1.slice" / f"crio-{ID}.scope"
    (folder / "container").mkdir(parents=True)
    (folder / "cpuset.cpus").write_text("2-3\n")
    (folder / "cpuset.cpus.effective").write_text("2-3\n")
    (folder / "container" / "cgroup.procs").write_text("77\n")
    conmon = folder.with_name(f"crio-conmon-{ID}.scope")
    conmon.mkdir()
    (conmon / "cgroup.procs").write_text("")
    task = proc / "77/task/77"
    task.mkdir(parents=True)
    (task / "status").write_text("Name:\tx\nCpus_allowed_list:\t2-3\nMems_allowed_list:\t0\n")
    (task / "cgroup").write_text(f"0::/kubepods.slice/kubepods-podu_1.slice/crio-{ID}.scope/container\n")
    (task / "comm").write_text("x\n")
    kubelet.mkdir()
    (kubelet / "cpu_manager_state").write_text(
        '{"policyName":"static","defaultCpuSet":"0-1","entries":{"u-1":{"main":"2-3"}},"checksum":0}'
    )
    logs.mkdir()
    (logs / f"web_prod_main-{ID}.log").symlink_to("/nowhere")
    reading = read_live(
        Places(kubelet_root=kubelet, cgroup_root=cgroup, proc=proc, logs=logs, sys=tmp_path / "sys", cri="/none")
    )
    assert reading.cgroups is not None
    assert set(reading.cgroups) == {UNIFIED}
    found = {subject.name: subject for subject in subjects(reading)}
    main = found["prod/web/main"]
    assert main.kind is SubjectKind.CONTAINER
    assert len(main.threads) == 1
    assert {subject.kind for subject in found.values()} == {SubjectKind.CONTAINER, SubjectKind.HELPER}
    node = node_claims(reading)
    claim = next(claim for claim in node.claims.claims if claim.name == "prod/web/main")
    assert (str(claim.cpus), str(claim.isolation)) == ("2-3", "container")
    assert {part.part for part in node.missing} >= {"config", "containers", "pods"}


@pytest.mark.parametrize(
    "state", ["", "{", "[]", '{"policyName":"static","defaultCpuSet":"x","checksum":0}', "\ud800?"]
)
def test_a_state_file_of_nonsense_is_a_finding(state: str) -> None:
    """Rule checkpoint fails; nothing else stumbles over the text."""
    files = read_bundle_files(sorted(DATA.glob("A2-6*.tar.gz"))[0])
    files["kubelet/cpu_manager_state"] = state.encode("utf-8", "replace")
    reading = reading_of(files)
    node = node_claims(reading)
    claims, evidence = evidence_of(reading, node)
    verdicts = judge(claims, evidence, [rule_named(name) for name in RULES])
    assert any(v.rule == "checkpoint" and v.outcome == "failed" for v in verdicts)


def test_a_finished_init_container_is_no_second_owner() -> None:
    """Without the pods' statuses, its entry beside the main container's is not two that run."""
    files = read_bundle_files(next(DATA.glob("B2-4*.tar.gz")))
    reading = reading_of({name: data for name, data in files.items() if name != "pods.json"})
    node = node_claims(reading)
    claims, evidence = evidence_of(reading, node)
    assert not [v.reason for v in judge(claims, evidence, [rule_named("checkpoint")]) if v.outcome == "failed"]


def test_a_machine_without_a_kubelet_is_an_input_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(claims_command, ["--kubelet", "--root", str(tmp_path)])
    assert isinstance(result.exception, InputError)
