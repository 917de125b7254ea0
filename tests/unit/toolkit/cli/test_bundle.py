"""Bundles: the same bytes for the same evidence, whose they are, what was done to them, and names that are left out."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.programs import needed
from tests.unit.toolkit.cli.command_line import Ended, pinproof
from tests.unit.toolkit.saved_runs import save_result, save_run
from tests.unit.validators.evidence_builder import balanced, claim_set, evidence, use
from toolkit.bundle import MANIFEST, NAMESPACE, SIGNATURE, STATEMENT
from toolkit.model.claims import ClaimSet
from toolkit.model.conformance import ScenarioResult
from toolkit.model.evidence import Environment, Evidence
from toolkit.model.identity import HardwareClass, Identity
from toolkit.model.serde import from_data, to_data
from toolkit.model.verdict import Outcome
from toolkit.packed import archive, directory_files, write_packed
from toolkit.session.engine.record import recorded
from toolkit.session.index import save_session, session_of
from toolkit.session.windows.sums import Sums
from toolkit.sources.kubelet.evidence import evidence_of
from toolkit.sources.kubelet.promises.node import node_claims
from toolkit.sources.kubelet.reading import read_capture
from toolkit.store import WINDOW, digest_of, save_windows_result
from validators.registry import judge

CAPTURES = Path(__file__).resolve().parents[3] / "data/captures"
RECORDED = Path(__file__).resolve().parents[3] / "data/runs/three-classes"
HOST, MACHINE, BOOT = "worker-12.rack7.example.com", "0123456789abcdef", "6f1c2c60-1111-2222-3333-444455556666"
CMDLINE = "BOOT_IMAGE=/vmlinuz root=/dev/sda1 isolcpus=2-3"
POD, UID = "payments-db", "8a7b6c5d-0000-1111-2222-333344445555"
SLICE = f"kubepods-pod{UID.replace('-', '_')}.slice"


def members(path: Path) -> dict[str, bytes]:
    """The files of an archive."""
    with tarfile.open(path) as tar:
        return {one.name: tar.extractfile(one).read() for one in tar}  # type: ignore[union-attr]


def everything(path: Path) -> dict[str, bytes]:
    """The files of an archive, and of the archives in it."""
    found = {}
    for name, content in members(path).items():
        found[name] = content
        if name.endswith(".tar.gz"):
            with tarfile.open(fileobj=io.BytesIO(content)) as tar:
                found |= {f"{name}/{one.name}": tar.extractfile(one).read() for one in tar}  # type: ignore[union-attr]
    return found


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys of alice and mallory, and a file in which alice alone may sign."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("alice", "mallory"):
        command = [needed("ssh-keygen", "openssh-client"), "-q", "-t", "ed25519", "-N", "", "-C", name]
        subprocess.run([*command, "-f", str(folder / name)], check=True, timeout=60)
    line = (folder / "alice.pub").read_text()
    (folder / "allowed").write_text(f'alice@example.com namespaces="pinproof" {line}')
    return folder


def test_the_same_evidence_gives_the_same_bytes(tmp_path: Path, keys: Path) -> None:
    """Also where it is signed (ed25519), and where it is put together of a bundle."""
    made = []
    for name in ("a", "b"):
        path = tmp_path / name / "three-classes.tar.gz"
        path.parent.mkdir()
        assert pinproof("bundle", RECORDED, "-o", path, "--sign", keys / "alice").exit_code == 0
        made.append(path.read_bytes())
    assert made[0] == made[1]
    again = tmp_path / "again" / "three-classes.tar.gz"
    again.parent.mkdir()
    done = pinproof("bundle", tmp_path / "a/three-classes.tar.gz", "-o", again, "--sign", keys / "alice")
    assert (done.exit_code, again.read_bytes()) == (0, made[0])


def test_the_manifest_names_every_file(tmp_path: Path) -> None:
    """By SHA-256, but for itself; what lies beside the run is no part of it."""
    run = tmp_path / "run"
    save_run(run, claims=claim_set(), evidence=evidence())
    (run / "notes.txt").write_text("private")
    pinproof("bundle", run, "-o", tmp_path / "x.tar.gz")
    found = members(tmp_path / "x.tar.gz")
    manifest = json.loads(found.pop(MANIFEST))
    assert manifest["schema"] == "pinproof.bundle/1"
    assert manifest["files"] == {name: hashlib.sha256(content).hexdigest() for name, content in found.items()}
    assert set(found) == {"run/claims.json", "run/evidence.json", STATEMENT}


@pytest.mark.parametrize("code", [0, 1])
def test_a_bundle_is_judged_as_its_run(tmp_path: Path, code: int) -> None:
    """The same words and exit code; that it was not verified is said."""
    escape = replace(use("db", 0, switches=1, run_ns=9, samples=0), out_of_set_switches=1, out_of_set_ns=9)
    found = balanced(evidence(cpu_use=(*evidence().cpu_use, escape))) if code else evidence()
    run = save_run(tmp_path / "run", claims=claim_set(), evidence=found)
    assert pinproof("bundle", run, "-o", tmp_path / "x.tar.gz").exit_code == 0
    for verb in (("judge",), ("judge", "--json"), ("report", "--format", "junit"), ("report", "--json")):
        plain, handed_on = pinproof(*verb, run), pinproof(*verb, tmp_path / "x.tar.gz")
        assert (handed_on.exit_code, handed_on.stdout) == (plain.exit_code, plain.stdout)
        assert plain.exit_code == code
        assert "not verified" in handed_on.stderr


@pytest.mark.parametrize("verb", ["judge", "report", "bundle"])
def test_what_differs_is_said_of_the_bundle(tmp_path: Path, verb: str) -> None:
    """A result that its evidence does not give is named by the bundle's path, not by where it was unpacked."""
    run = save_run(tmp_path / "run", claims=claim_set(), evidence=evidence())
    changed = tuple(replace(one, outcome=Outcome.FAILED) for one in judge(claim_set(), evidence()))
    save_result(run, changed, evidence())
    path = tmp_path / "x.tar.gz"
    assert pinproof("bundle", run, "-o", path).exit_code == 0

    done = pinproof(verb, path, *(("-o", tmp_path / "y.tar.gz") if verb == "bundle" else ()))

    assert f"pinproof: {path}/result.json: " in done.stderr
    assert "/pinproof-" not in done.stderr


def signed(tmp_path: Path, keys: Path, who: str = "alice") -> Path:
    path = tmp_path / "signed.tar.gz"
    assert pinproof("bundle", RECORDED, "-o", path, "--sign", keys / who).exit_code == 0
    return path


def verify(path: Path, keys: Path, *more: str) -> Ended:
    return pinproof("judge", path, "--allowed-signers", keys / "allowed", *more)


def test_who_signed_is_said(tmp_path: Path, keys: Path) -> None:
    """With and without a name that must be it."""
    path = signed(tmp_path, keys)
    for more in ((), ("--identity", "alice@example.com")):
        done = verify(path, keys, *more)
        assert done.exit_code == 0
        assert "signed by alice@example.com" in done.stderr


def refused(done: Ended, text: str) -> None:
    """One line, exit code 2, no verdict."""
    assert (done.exit_code, done.stdout) == (2, ""), done
    assert text in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_cannot_be_verified_is_not_judged(tmp_path: Path, keys: Path) -> None:
    """No signature, somebody else's, another identity, a signature for something else, no bundle at all."""
    plain = tmp_path / "plain.tar.gz"
    pinproof("bundle", RECORDED, "-o", plain)
    refused(verify(plain, keys), "it is not signed")
    refused(verify(signed(tmp_path, keys, "mallory"), keys), "of nobody among the allowed signers")
    path = signed(tmp_path, keys)
    refused(verify(path, keys, "--identity", "bob@example.com"), "not one of bob@example.com")
    files = members(path)
    manifest = tmp_path / "manifest.json"
    manifest.write_bytes(files[MANIFEST])
    subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-f", keys / "alice", "-n", "git", manifest], check=True, timeout=60
    )
    path.write_bytes(archive({**files, SIGNATURE: (tmp_path / "manifest.json.sig").read_bytes()}))
    assert NAMESPACE != "git"
    refused(verify(path, keys), "its signature is not one of alice@example.com")
    refused(verify(RECORDED, keys), "no bundle")
    refused(pinproof("judge", path, "--identity", "alice@example.com"), "no --allowed-signers")
    refused(pinproof("judge", path, "--allowed-signers", tmp_path / "nothing"), "No such file")


def rewritten(files: Mapping[str, bytes], name: str, content: bytes) -> dict[str, bytes]:
    """A file that was changed, and a manifest that says so."""
    manifest = json.loads(files[MANIFEST])
    manifest["files"][name] = hashlib.sha256(content).hexdigest()
    return {**files, name: content, MANIFEST: json.dumps(manifest).encode()}


TAMPERED: dict[str, tuple[Callable[[dict[str, bytes]], dict[str, bytes]], str]] = {
    "a changed file": (
        lambda files: {**files, "run/claims.json": files["run/claims.json"] + b" "},
        "run/claims.json is not",
    ),
    "a changed statement": (lambda files: {**files, STATEMENT: b"All passed."}, "statement.md is not"),
    "a missing file": (
        lambda files: {k: v for k, v in files.items() if k != "run/result.json"},
        "run/result.json is missing",
    ),
    "another file": (
        lambda files: {**files, "run/more.json": b"{}"},
        "run/more.json, which its manifest does not name",
    ),
    "a new manifest": (lambda files: rewritten(files, "run/result.json", b"{}"), "its signature is not one of"),
    "no manifest": (lambda files: {k: v for k, v in files.items() if k != MANIFEST}, "no bundle"),
    "a manifest that is none": (lambda files: {**files, MANIFEST: b"[]"}, "manifest.json"),
    "another schema": (
        lambda files: {**files, MANIFEST: files[MANIFEST].replace(b"bundle/1", b"bundle/9")},
        "pinproof.bundle/1",
    ),
    "a key twice": (
        lambda files: {**files, MANIFEST: files[MANIFEST].replace(b'"kind": "run"', b'"kind": "run", "kind": "run"')},
        "manifest.json",
    ),
    "a broken signature": (lambda files: {**files, SIGNATURE: b"-----BEGIN SSH SIGNATURE-----\nAA\n"}, "signature"),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_what_was_tampered_with_is_refused(tmp_path: Path, keys: Path, what: str) -> None:
    """Exit code 2 and one line, before anything is judged."""
    path = signed(tmp_path, keys)
    change, text = TAMPERED[what]
    path.write_bytes(archive(change(members(path))))
    refused(verify(path, keys), text)


def test_without_signers_a_changed_file_is_refused_too(tmp_path: Path, keys: Path) -> None:
    """The manifest is held against the files whatever asks."""
    path = signed(tmp_path, keys)
    files = members(path)
    path.write_bytes(
        archive({**files, "run/evidence.json": files["run/evidence.json"].replace(b"db/main", b"db/mean")})
    )
    refused(pinproof("judge", path), "run/evidence.json is not the file of its manifest")


def raw(*infos: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """A tar of such members."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for info, content in infos:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return gzip.compress(out.getvalue())


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


HOSTILE = {
    "link": raw((member("run/claims.json", tarfile.SYMTYPE, "/etc/shadow"), b"")),
    "hard link": raw((member("run/claims.json", tarfile.LNKTYPE, "manifest.json"), b"")),
    "device": raw((member("run/null", tarfile.CHRTYPE), b"")),
    "absolute": raw((member("/etc/passwd"), b"x")),
    "outside": raw((member("run/../../x"), b"x")),
    "twice": raw((member("manifest.json"), b"{}"), (member("manifest.json"), b"{}")),
    "deep": raw((member("a/" * 30 + "x"), b"x")),
    "many": raw(*((member(f"run/{number}"), b"") for number in range(10_001))),
    "cut": gzip.compress(b"\0" * 700)[:-9],
    "no archive": b"hello",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_archives_are_refused(tmp_path: Path, what: str) -> None:
    """Nothing is written anywhere, nothing is followed; one line."""
    path = tmp_path / "bad.tar.gz"
    path.write_bytes(HOSTILE[what])
    before = sorted(tmp_path.rglob("*"))
    refused(pinproof("judge", path), "bad.tar.gz")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_flood_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More bytes than a run may have end before they are in memory."""
    monkeypatch.setattr("toolkit.packed.MAX_FILE_BYTES", 1 << 20)
    path = tmp_path / "bad.tar.gz"
    path.write_bytes(raw((member("run/evidence.json"), b"\0" * (2 << 20))))
    refused(pinproof("judge", path), "more than")


# Names


def private() -> tuple[ClaimSet, Evidence]:
    """A run of a kubelet's node whose names are secrets; verdicts are those of the builder's."""

    def name_of(text: str) -> str:
        return {"db": f"{POD}-main", "web": "front-9"}[text]

    def renamed(value: Any) -> Any:
        text = json.dumps(to_data(value))
        for old in ("db", "web"):
            text = re.sub(rf'(?<=["/]){old}(?=")', name_of(old), text)
        text = text.replace("/kubepods/poda", f"/kubepods.slice/{SLICE}")
        return json.loads(re.sub(r'/kubepods(?=[/"])', "/kubepods.slice", text))

    identity = Identity(
        node=HOST, machine=MACHINE, boot_id=BOOT, hardware=HardwareClass(name="epyc-1s", hash="0011223344556677")
    )
    found = evidence()
    environment: Environment = replace(found.environment, cmdline=CMDLINE, identity=identity)
    found = replace(found, environment=environment)
    claims = from_data(ClaimSet, renamed(claim_set()), "claims")
    claims = replace(claims, claims=tuple(replace(one, pod=POD, pod_uid=UID) for one in claims.claims))
    return claims, from_data(Evidence, renamed(found), "evidence")


SECRETS = (HOST, "worker-12", MACHINE, BOOT, CMDLINE, POD, UID, UID.replace("-", "_"), "front-9")


def outcomes(path: Path) -> list[tuple[str, str]]:
    data = json.loads(pinproof("judge", path, "--json").stdout)
    return sorted((one["rule"], one["outcome"]) for one in data["verdicts"])


def test_nothing_of_the_names_is_left(tmp_path: Path) -> None:
    """In no file of the bundle, nor in what is said of it; verdicts are what they were, and it is of one run."""
    claims, found = private()
    run = save_run(tmp_path / POD, claims=claims, evidence=found)
    save_result(run, judge(claims, found), found)
    assert any(HOST in file.read_text() for file in run.iterdir()), "the test would show nothing"
    done = pinproof("bundle", run, "-o", tmp_path / "x.tar.gz", "--redact")
    assert done.exit_code == 0, done
    for name, content in everything(tmp_path / "x.tar.gz").items():
        text = content.decode()
        assert not [secret for secret in SECRETS if secret in text], name
        assert not [secret for secret in SECRETS if secret in name]
    assert outcomes(tmp_path / "x.tar.gz") == outcomes(run)
    told = pinproof("judge", tmp_path / "x.tar.gz", "--verbose")
    assert not [secret for secret in SECRETS if secret in told.stdout + told.stderr]
    assert "redacted" in told.stderr
    assert "not of one run" not in told.stdout


@pytest.mark.parametrize(
    "name",
    ["A-3-g1-reconciled", "A2-6-tampered", "B1-3-g2-reconciled", "B2-2-plr-reconciled", "D-5-be-main-tampered-0-1"],
)
def test_what_a_kubelet_s_node_says_of_itself_has_no_names_left(tmp_path: Path, name: str) -> None:
    """State files, their raw text, the runtime's containers and layers; verdicts are what they were."""
    reading = read_capture(CAPTURES / f"{name}.tar.gz")
    claims, found = evidence_of(reading, node_claims(reading))
    run = save_run(tmp_path / "run", claims=claims, evidence=found)
    uids = {one.pod_uid for one in claims.claims} | {one.pod_uid.replace("-", "_") for one in claims.claims}
    pods = {one.pod.rpartition("/")[2] for one in claims.claims} - {""}
    assert pods
    assert pinproof("bundle", run, "-o", tmp_path / "x.tar.gz", "--redact").exit_code == 0
    for file, content in everything(tmp_path / "x.tar.gz").items():
        text = content.decode()
        assert not [uid for uid in uids - {""} if uid in text], file
        assert not [pod for pod in pods if re.search(rf'["/]{re.escape(pod)}["/]', text)], file
    assert outcomes(tmp_path / "x.tar.gz") == outcomes(run)


def test_windows_without_names_are_one_watch(tmp_path: Path) -> None:
    """Each window states the digest of the new result before it, and the sums stay what they were."""
    claims, found = private()
    sums, before, watch = Sums(), "", tmp_path / "watch"
    for number in (1, 2):
        later_ns = (number - 1) * found.duration_ns
        one = replace(found, start_monotonic_ns=found.start_monotonic_ns + later_ns, toolkit_cpu_ns=number)
        record = recorded(watch / WINDOW.format(number), claims=claims, evidence=one, before=before)
        record.save()
        before = digest_of(record.texts["result"])
        sums.add(number, record.result, record.ran.rows)
    save_windows_result(watch, sums.result())
    assert pinproof("bundle", watch, "-o", tmp_path / "x.tar.gz", "--redact").exit_code == 0
    for name, content in everything(tmp_path / "x.tar.gz").items():
        assert not [secret for secret in SECRETS if secret in content.decode()], name
    plain, without = pinproof("judge", watch), pinproof("judge", tmp_path / "x.tar.gz")
    assert without.exit_code == plain.exit_code
    assert "not of one run" not in without.stdout + plain.stdout
    assert "differ" not in without.stderr
    assert outcomes(tmp_path / "x.tar.gz") == outcomes(watch)


def a_session(folder: Path) -> Path:
    """A session of two scenarios that ran and one that did not fit, with secret names."""
    claims, found = private()
    results = []
    for name in ("first", "second"):
        run = save_run(folder / "runs" / name, claims=claims, evidence=found)
        content = write_packed(folder / "s" / f"{name}.tar.gz", directory_files(run))
        verdicts = judge(claims, found)
        results.append(
            ScenarioResult(
                name=name,
                title=name,
                catalogue=(),
                outcome=Outcome.PASSED,
                reason="",
                verdicts=verdicts,
                packed=f"{name}.tar.gz",
                files={f"{name}.tar.gz": hashlib.sha256(content).hexdigest()},
            )
        )
    unfit = ScenarioResult(name="numa", title="", catalogue=(), outcome=Outcome.SKIPPED, reason="one NUMA node only")
    session = session_of(
        "night", [*results, unfit], found.environment, started_at=found.started_at, duration_s=9, complete=True
    )
    save_session(folder / "s", session)
    return folder / "s"


def test_a_session_is_one_bundle(tmp_path: Path, keys: Path) -> None:
    """Index and packed runs; judged as the session is; its statement says what was not run, and why."""
    session = a_session(tmp_path)
    path = tmp_path / "x.tar.gz"
    assert pinproof("bundle", session, "-o", path, "--sign", keys / "alice").exit_code == 0
    assert set(members(path)) == {
        *(MANIFEST, SIGNATURE, STATEMENT),
        *("run/session.json", "run/first.tar.gz", "run/second.tar.gz"),
    }
    plain, handed_on = pinproof("judge", session), verify(path, keys)
    assert handed_on.exit_code == plain.exit_code
    # Where the runs lie is all that may differ.
    assert handed_on.stdout.splitlines()[0] == plain.stdout.splitlines()[0]
    assert "scenario numa was not run: one NUMA node only" in pinproof("bundle", path, "--statement").stdout


def test_a_redacted_session_has_one_token_a_name(tmp_path: Path) -> None:
    """The same in all runs; nothing is left in the packed ones either, and the index names their new digests."""
    session = a_session(tmp_path)
    path = tmp_path / "x.tar.gz"
    done = pinproof("bundle", session, "-o", path, "--redact")
    assert done.exit_code == 0, done
    found = everything(path)
    for name, content in found.items():
        if not name.endswith(".tar.gz"):
            assert not [secret for secret in SECRETS if secret in content.decode()], name
    assert found["run/first.tar.gz/claims.json"] == found["run/second.tar.gz/claims.json"]
    assert b"node-1" in found["run/session.json"]
    assert pinproof("judge", path).exit_code == pinproof("judge", session).exit_code


# Statements and lists of checks


def test_a_statement_says_what_is_not_shown(tmp_path: Path) -> None:
    """Blind spots, skipped rules with their reasons, and what failed under its own head."""
    escape = replace(use("db", 0, switches=1, run_ns=9, samples=0), out_of_set_switches=1, out_of_set_ns=9)
    run = save_run(
        tmp_path / "run", claims=claim_set(), evidence=balanced(evidence(cpu_use=(*evidence().cpu_use, escape)))
    )
    done = pinproof("bundle", run, "--statement")
    assert done.exit_code == 0
    heads = re.findall(r"^## (.*)$", done.stdout, re.MULTILINE)
    assert heads == ["Machine", "Software", "Shown", "Broken", "Not shown", "Waived", "By whom"]
    part = dict(zip(heads, re.split(r"^## .*$", done.stdout, flags=re.MULTILINE)[1:], strict=True))
    assert "`cpuset-containment` db" in part["Broken"]
    assert "rule `checkpoint` skipped" in part["Not shown"]
    assert "`affinity-mask`" in part["Shown"]
    assert "Nothing." in part["Waived"]


def test_a_statement_says_what_is_waived_and_by_whom(tmp_path: Path) -> None:
    """Of the waivers those that held on the day of the evidence; what is waived stays broken."""
    escape = replace(use("db", 0, switches=1, run_ns=9, samples=0), out_of_set_switches=1, out_of_set_ns=9)
    found = balanced(evidence(cpu_use=(*evidence().cpu_use, escape)))
    run = save_run(tmp_path / "run", claims=claim_set(), evidence=found)
    policy = tmp_path / "policy.yaml"
    text = (
        "apiVersion: pinproof/v1\nkind: GatePolicy\nwaivers:\n"
        "- {rule: cpuset-containment, subject: db, reason: new kernel, issue: OPS-7, owner: dana, until: DAY}\n"
    )
    day = found.started_at[:10]
    policy.write_text(text.replace("DAY", day))
    said = pinproof("bundle", run, "--statement", "--policy", policy).stdout
    waived = said.partition("## Waived")[2].partition("##")[0]
    assert "cpuset-containment db: new kernel (OPS-7, dana, until" in waived
    assert "`cpuset-containment` db" in said.partition("## Broken")[2].partition("##")[0]
    policy.write_text(text.replace("DAY", "2020-01-01"))
    said = pinproof("bundle", run, "--statement", "--policy", policy).stdout
    assert "Nothing." in said.partition("## Waived")[2].partition("##")[0]
    assert pinproof("bundle", run, "--statement", "--policy", tmp_path / "none").exit_code == 2


def test_a_stranger_s_name_is_no_markup(tmp_path: Path) -> None:
    """Markdown that a name hides stays text."""
    claims, found = private()
    node = "x](http://evil) <script> | `"
    assert found.environment.identity is not None
    identity = replace(found.environment.identity, node=node)
    found = replace(found, environment=replace(found.environment, identity=identity))
    run = save_run(tmp_path / "run", claims=claims, evidence=found)
    said = pinproof("bundle", run, "--statement").stdout
    assert "<script>" not in said
    assert r"\<script\> \| \`" in said


@pytest.mark.parametrize("code", [0, 1])
def test_tap(tmp_path: Path, code: int) -> None:
    """Version line, plan, a subtest; what failed is not ok with its reason; skipped is ok with SKIP."""
    escape = replace(use("db", 0, switches=1, run_ns=9, samples=0), out_of_set_switches=1, out_of_set_ns=9)
    found = balanced(evidence(cpu_use=(*evidence().cpu_use, escape))) if code else evidence()
    run = save_run(tmp_path / "run", claims=claim_set(), evidence=found)
    done = pinproof("report", run, "--format", "tap")
    lines = done.stdout.splitlines()
    assert done.exit_code == code
    assert lines[:3] == ["TAP version 14", "1..1", "# Subtest: run"]
    points = [line for line in lines if re.match(r"    (not )?ok \d+ - ", line)]
    assert lines[3] == f"    1..{len(points)}"
    assert [int(re.findall(r"ok (\d+)", line)[0]) for line in points] == list(range(1, len(points) + 1))
    bad = [line for line in points if line.startswith("    not ok")]
    assert any("cpuset-containment db" in line for line in bad) == bool(code)
    assert any(" # SKIP " in line for line in points)
    diagnostics = re.findall(r"^ *---\n(.*?)^ *\.\.\.$", done.stdout, re.MULTILINE | re.DOTALL)
    assert all(yaml.safe_load(one)["outcome"] in ("failed", "undecided") for one in diagnostics)
    assert bool(diagnostics) == bool(code)
    assert [line for line in lines if re.match(r"(not )?ok ", line)] == [f"{'not ok' if code else 'ok'} 1 - run"]


def test_sonobuoy(tmp_path: Path) -> None:
    """Sonobuoy's items: plugin, node, scenario, checks; statuses are ours, and the worst is the plugin's."""
    session = a_session(tmp_path)
    done = pinproof("report", session, "--format", "sonobuoy", "--output", tmp_path / "sonobuoy_results.yaml")
    data = yaml.safe_load((tmp_path / "sonobuoy_results.yaml").read_text())
    assert (data["name"], data["meta"]) == ("pinproof", {"type": "summary"})
    (node,) = data["items"]
    assert (node["name"], node["meta"]["type"]) == (HOST, "node")
    assert [one["name"] for one in node["items"]] == ["first", "second"]
    assert all(one["status"] in ("passed", "failed", "undecided", "skipped") for one in node["items"][0]["items"])
    assert (data["status"] == "passed") == (done.exit_code == 0)
