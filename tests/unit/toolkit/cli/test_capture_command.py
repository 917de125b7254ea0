"""``pinproof capture``: what is in the file, what is not, and that it says what the node says."""

from __future__ import annotations

import gzip
import json
import os
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.unit.toolkit.sources.made_node import HOSTILE, MAIN, SECRET, WEB, node, write
from toolkit.cli.capture import command as capture_command
from toolkit.cli.claims import command as claims_command
from toolkit.errors import InputError
from toolkit.sources.kubelet.files.capture import read_bundle_files
from toolkit.sources.kubelet.promises.node import node_claims
from toolkit.sources.kubelet.reading import reading_of


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder of a short name: the path of a socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="pp-") as folder:
        yield Path(folder)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "host"


def capture(out: Path, root: Path, endpoint: str, *more: str) -> Result:
    return CliRunner().invoke(capture_command, [str(out), "--root", str(root), "--cri", endpoint, *more])


def claims(*arguments: str) -> dict[str, object]:
    result = CliRunner().invoke(claims_command, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


def test_a_capture_says_what_its_node_says(root: Path, tmp_path: Path) -> None:
    """Claims, kinds, layers and what is missing are the same, to the letter."""
    out = tmp_path / "n.tar.gz"
    with node(root, tmp_path) as endpoint:
        live = claims("--kubelet", "--root", str(root), "--cri", endpoint)
        done = capture(out, root, endpoint)
    assert done.exit_code == 0, done.output
    assert claims("--capture", str(out)) == live
    rows = {row["name"]: row for row in live["claims"]}  # type: ignore[union-attr]
    main, web = rows["p/main"], next(row for name, row in rows.items() if name.endswith("/srv"))
    assert (main["cpus"], main["isolation"], main["quota_us"], main["state_cpus"]) == ("2-3", "container", -1, "2-3")
    assert (main["thread_masks"], main["live_threads"]) == (["2-3"], 1)
    assert (web["cpus"], web["isolation"], web["quota_us"]) == ("0-1", "host", 50000)
    assert rows["p/(sandbox)"]["kind"] == "sandbox"
    assert live["reserved_cpus"] == "0"
    missing = {row["part"]: row["reason"] for row in live["missing"]}  # type: ignore[union-attr]
    assert set(missing) == {"limits", "memory_state", "pods", "parents", "static_pods", "version"}
    assert "/etc/manifests/broken.yaml" in missing["static_pods"]
    assert str(tmp_path) not in json.dumps(live), "a node's paths are its own, wherever its root is mounted"


def test_only_a_file_is_replaced(root: Path, tmp_path: Path) -> None:
    """``--force`` follows a link, and puts no file in the place of a pipe, a socket or a device: of /dev/null, say."""
    kept, link, dangling = tmp_path / "kept.tar.gz", tmp_path / "link", tmp_path / "dangling"
    kept.write_text("old")
    link.symlink_to("kept.tar.gz")
    dangling.symlink_to("new.tar.gz")
    pipe, folder = tmp_path / "pipe", tmp_path / "folder"
    os.mkfifo(pipe)
    folder.mkdir()
    with node(root, tmp_path) as endpoint:
        for out in (link, dangling):
            assert capture(out, root, endpoint, "--force").exit_code == 0
            assert out.is_symlink()
        for out in (pipe, folder, tmp_path / "c.sock"):
            before = out.lstat()
            refused = capture(out, root, endpoint, "--force").exception
            assert isinstance(refused, InputError)
            assert "not a regular file" in str(refused)
            assert out.lstat() == before
    for written in (kept, tmp_path / "new.tar.gz"):
        assert claims("--capture", str(written))["reserved_cpus"] == "0"


def test_no_secret_of_a_pod_is_in_it(root: Path, tmp_path: Path) -> None:
    """Environment, arguments, annotations, volumes, own labels, headers: planted in every source, in no file."""
    out = tmp_path / "n.tar.gz"
    with node(root, tmp_path) as endpoint:
        assert capture(out, root, endpoint).exit_code == 0
    planted = [path for path in root.rglob("*") if path.is_file() and SECRET in path.read_text("utf-8", "replace")]
    assert len(planted) >= 4, "the test plants secrets"
    assert SECRET.encode() not in gzip.decompress(out.read_bytes())
    files = read_bundle_files(out)
    assert b"cpu: '2'" in files["kubelet/pods/p.yaml"]
    assert b"--config-dir" in files["kubelet/cmdline"]


def test_hostile_names_are_spelt(root: Path, tmp_path: Path) -> None:
    """No name in the archive, and no text of it, can steer a terminal; what they name is found again."""
    out = tmp_path / "n.tar.gz"
    with node(root, tmp_path) as endpoint:
        assert capture(out, root, endpoint).exit_code == 0
    with tarfile.open(out) as archive:
        names = archive.getnames()
    assert all(name.isprintable() and ".." not in name.split("/") and name[0] != "/" for name in names)
    files = read_bundle_files(out)
    assert all(text.replace("\n", "").replace("\0", "").isprintable() for text in map(bytes.decode, files.values()))
    reading = reading_of(files)
    assert reading.cgroups is not None
    assert {f"/kubepods/{HOSTILE}/{WEB}", "/kubepods/pod\udcff/x\udcfe"} <= set(reading.cgroups["unified"])
    threads = {thread.comm: thread.cgroups for thread in reading.threads or ()}
    assert threads["web\x1b[2J"] == {"unified": f"/kubepods/{HOSTILE}/{WEB}"}


def test_the_parts_of_the_first_layout_are_enough(root: Path, tmp_path: Path) -> None:
    """A reader that knows containers.json and no node.json finds the same promises."""
    out = tmp_path / "n.tar.gz"
    with node(root, tmp_path) as endpoint:
        assert capture(out, root, endpoint).exit_code == 0
    files = read_bundle_files(out)
    documented = ("kubelet/", "cgroup/", "threads.json", "containers.json", "podresources.json", "sysfs.txt")
    first = {name: data for name, data in files.items() if name.startswith(documented)}

    def promised(files: dict[str, bytes]) -> list[tuple[object, ...]]:
        rows = node_claims(reading_of(files)).claims.claims
        return [(c.name, c.cgroup, str(c.cpus), c.isolation, c.quota_us, c.shares) for c in rows if c.kind != "helper"]

    assert promised(first) == promised(files)


@pytest.mark.parametrize("gone", ["c.sock", "host/var/lib/own/pod-resources/kubelet.sock"])
def test_a_socket_that_is_gone_costs_one_line(root: Path, tmp_path: Path, gone: str) -> None:
    """The rest is read; names come from the log symlinks then."""
    with node(root, tmp_path) as endpoint:
        (tmp_path / gone).unlink()
        arguments = ["--kubelet", "--root", str(root), "--cri", endpoint]
        result = CliRunner().invoke(claims_command, arguments)
        said = claims(*arguments)
    assert result.exit_code == 0
    lines = [line for line in result.stderr.splitlines() if "No such file" in line and ".sock" in line]
    assert len(lines) == 1
    assert "compared" in lines[0] or "drift cannot be distinguished" in lines[0], "and what that costs"
    names = {row["name"] for row in said["claims"]}  # type: ignore[union-attr]
    assert any(name.endswith("/srv") for name in names)


def test_the_endpoint_is_the_kubelets_own(root: Path, tmp_path: Path) -> None:
    """Without --cri the configuration names it, below --root."""
    conf = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    with node(root, tmp_path):
        before = claims("--kubelet", "--root", str(root))
        write(root, "etc/kubelet.d/20-cri.conf", f"{conf}containerRuntimeEndpoint: unix:///var/run/cri.sock\n")
        (root / "run").mkdir()
        (root / "var/run").symlink_to("/run")
        (tmp_path / "c.sock").rename(root / "run/cri.sock")
        after = claims("--kubelet", "--root", str(root))
    parts = [{row["part"] for row in said["missing"]} for said in (before, after)]  # type: ignore[attr-defined]
    assert "containers" in parts[0], "there is no such socket below --root"
    assert "containers" not in parts[1], "an absolute link stays below --root"


def test_an_existing_file_is_kept_unless_forced(root: Path, tmp_path: Path) -> None:
    """And a capture that cannot be written leaves nothing behind."""
    out = tmp_path / "n.tar.gz"
    out.write_text("precious")
    with node(root, tmp_path) as endpoint:
        refused = capture(out, root, endpoint)
        assert isinstance(refused.exception, InputError)
        assert out.read_text() == "precious"
        assert capture(out, root, endpoint, "--force").exit_code == 0
        nowhere = capture(tmp_path / "none/x.tar.gz", root, endpoint)
    assert isinstance(nowhere.exception, InputError)
    assert MAIN in "".join(read_bundle_files(out))
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".sock") == ["host", "n.tar.gz"]


def test_nothing_to_read_writes_nothing(tmp_path: Path) -> None:
    """A machine without a kubelet is an input error, and no file."""
    (tmp_path / "host").mkdir()
    result = capture(tmp_path / "x.tar.gz", tmp_path / "host", str(tmp_path / "none"))
    assert isinstance(result.exception, InputError)
    assert not (tmp_path / "x.tar.gz").exists()


def test_json_names_what_is_missing(root: Path, tmp_path: Path) -> None:
    with node(root, tmp_path) as endpoint:
        result = capture(tmp_path / "n.tar.gz", root, endpoint, "--json")
    said = json.loads(result.stdout)
    assert said["schema"] == "pinproof.capture/1"
    assert said["bytes"] == (tmp_path / "n.tar.gz").stat().st_size
    parts = {row["part"] for row in said["missing"]}
    assert parts == {"limits", "memory_state", "pods", "parents", "static_pods", "version"}


def test_links_stay_below_the_root(root: Path, tmp_path: Path) -> None:
    """A link of the node to a file that only this machine has leads nowhere; one to a file of the node is followed."""
    (tmp_path / "own").write_text(SECRET)
    with node(root, tmp_path) as endpoint:
        state = root / "var/lib/own/cpu_manager_state"
        state.rename(root / "moved")
        state.symlink_to("/moved")
        (root / "var/lib/own/memory_manager_state").symlink_to(tmp_path / "own")
        (root / "proc/77/task/77/comm").unlink()
        (root / "proc/77/task/77/comm").symlink_to(tmp_path / "own")
        assert capture(tmp_path / "n.tar.gz", root, endpoint).exit_code == 0
    files = read_bundle_files(tmp_path / "n.tar.gz")
    assert b'"policyName":"static"' in files["kubelet/cpu_manager_state"]
    assert "kubelet/memory_manager_state" not in files
    assert SECRET.encode() not in b"".join(files.values())


def test_a_broken_configuration_with_a_secret_is_left_out(root: Path, tmp_path: Path) -> None:
    """What cannot be read cannot be cleaned: neither it nor a quotation of it is kept."""
    with node(root, tmp_path) as endpoint:
        write(root, "etc/kubelet.yaml", f"staticPodURLHeader: {{A: [{SECRET}]}}\n{SECRET}: 1\n{SECRET}: [\n")
        assert capture(tmp_path / "n.tar.gz", root, endpoint).exit_code == 0
    files = read_bundle_files(tmp_path / "n.tar.gz")
    assert SECRET.encode() not in b"".join(files.values())
    assert (
        "/etc/kubelet.yaml"
        in {row["part"]: row["reason"] for row in json.loads(files["capture.json"])["missing"]}["config"]
    )
