"""Which verbs work follows from what is missing; each missing thing has a cause and a remedy."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.unit.toolkit.host.sysroots import write
from toolkit.cli import doctor
from toolkit.cli.main import cli
from toolkit.host import bpf_syscalls, capabilities
from toolkit.host.capabilities import Capability, HostReport, _root, own_cgroups, read_capabilities, working_verbs
from toolkit.host.cgroup_mounts import Hierarchy, Mode
from toolkit.session.engine import probe_capability
from toolkit.session.engine.probe_capability import with_probes
from toolkit.verbs import VERBS


@pytest.fixture
def all_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that refuses every call."""
    for name in ("try_array_map", "try_ring_buffer", "try_raw_tracepoint", "try_cpu_clock_event"):
        monkeypatch.setattr(bpf_syscalls, name, lambda *_, **__: 1)


def by_name(report: HostReport) -> dict[str, Capability]:
    """Look facts up."""
    return {capability.name: capability for capability in report.capabilities}


@pytest.mark.usefixtures("all_refused")
def test_an_empty_host_has_a_cause_and_a_remedy_for_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is there `run` cannot work, and every "no" says why and how to get it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("BCC_KERNEL_SOURCE", raising=False)
    report = read_capabilities(tmp_path)
    missing = [capability for capability in report.capabilities if not capability.available]
    assert {"bpf", "btf", "cgroup2", "cpuset-controller", "runc", "stress-ng"} <= {
        capability.name for capability in missing
    }
    assert all(capability.detail and capability.remedy for capability in missing)
    assert not report.can_run
    assert report.verbs["topology"] == ()


def test_a_pure_v1_host_is_told(tmp_path: Path) -> None:
    """A pure v1 host cannot run or watch, and the reason is the missing v2 identity."""
    write(tmp_path, {"proc/self/mountinfo": "31 1 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu"})
    report = read_capabilities(tmp_path)
    assert "v1 only" in by_name(report)["cgroup2"].detail
    assert by_name(report)["cpu-controller"].available
    assert "cgroup2" in report.verbs["watch"]


def test_confidentiality_lockdown_forbids_tracing(tmp_path: Path) -> None:
    """Lockdown for integrity is no obstacle, lockdown for confidentiality is."""
    lockdown = "sys/kernel/security/lockdown"
    for text, allowed in (("none [integrity] confidentiality", True), ("none integrity [confidentiality]", False)):
        report = read_capabilities(write(tmp_path, {lockdown: text}))
        assert by_name(report)["lockdown"].available is allowed
        assert ("lockdown" in report.verbs["run"]) is not allowed


RUNGS = {
    **dict.fromkeys(("bpf", "ring-buffer", "raw-tracepoint", "lockdown", "btf", "bcc"), "every switch"),
    "perf-event": "the sampler",
    "function-return": "which tasks write control files",
}


@pytest.mark.usefixtures("all_refused")
def test_each_rung_says_what_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row for each, refused by trying; the text has what is lost beside the remedy."""
    tree = write(tmp_path, {"sys/kernel/security/lockdown": "none integrity [confidentiality]"})
    monkeypatch.setattr(capabilities, "find_bcc", lambda _: (None, "not installed", "apt install python3-bpfcc"))
    report = read_capabilities(tree)
    facts = by_name(report)
    assert {name: facts[name].available for name in RUNGS} == dict.fromkeys(RUNGS, False)
    assert all(facts[name].lost.startswith(lost) for name, lost in RUNGS.items())
    text = " ".join(doctor.render_report(report).split())
    assert "lost without it: every switch; `watch` goes on with masks, control files and counters" in text


@pytest.mark.parametrize(
    ("missing", "partly"),
    [
        ((), False),
        (("bpf",), True),
        (("btf", "own-cgroups"), True),
        (("own-cgroups",), False),
        (("bpf", "cgroup2"), False),
    ],
)
def test_a_watch_works_in_part_without_programs_alone(missing: tuple[str, ...], partly: bool) -> None:
    """Where the hierarchy lacks, or a place for the canaries alone, it does not begin."""
    facts = (
        Capability(name="root", available=True, detail="x"),
        *(Capability(name=name, available=False, detail="x", needed_by=("watch",)) for name in missing),
    )
    report = HostReport(capabilities=facts, verbs=working_verbs(facts))
    assert report.watches_in_part is partly
    assert ("in part" in doctor.render_report(report)) is partly


@pytest.mark.parametrize(
    ("value", "error", "lacks", "binds"),
    [("3", 13, True, True), ("3", 0, True, False), ("3", 1, False, False), ("0", 13, True, False)],
)
def test_a_setting_binds_where_it_is_what_refuses(
    value: str, error: int, lacks: bool, binds: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its value is shown; whether it binds is tried: not a process that has the capability, nor one that is let."""
    names = ("perf_event_paranoid", "unprivileged_bpf_disabled")
    tree = write(tmp_path, {f"proc/sys/kernel/{name}": value for name in names})
    monkeypatch.setattr(bpf_syscalls, "try_array_map", lambda *_, **__: error)
    monkeypatch.setattr(bpf_syscalls, "try_cpu_clock_event", lambda *_: error)
    monkeypatch.setattr(capabilities, "lacking", lambda *caps, **_: caps if lacks else ())
    facts = by_name(read_capabilities(tree))
    for name, cap in (("perf-event-paranoid", "CAP_PERFMON"), ("unprivileged-bpf-disabled", "CAP_BPF")):
        assert facts[name].available is not binds
        assert f" is {value}; it {'binds' if binds else 'does not bind'} this process" in facts[name].detail
        assert (cap in facts[name].remedy) is binds


@pytest.mark.parametrize("module", ["selinux", "apparmor"])
@pytest.mark.parametrize(("lacks", "suspected"), [(True, False), (False, True)])
def test_a_security_module_is_the_cause_where_capabilities_are_there(
    module: str, lacks: bool, suspected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused all the same: then the policy is named, with what helps. Without the capability that is the cause."""
    files = {"sys/kernel/security/lsm": f"lockdown,capability,{module},bpf", "proc/self/attr/current": "confined_t"}
    tree = write(tmp_path, {**files})
    monkeypatch.setattr(bpf_syscalls, "try_raw_tracepoint", lambda *_: 1)
    monkeypatch.setattr(capabilities, "lacking", lambda *caps, **_: caps if lacks else ())
    fact = by_name(read_capabilities(tree))["security-modules"]
    assert fact.available is not suspected
    assert f"with a policy: {module} (this process: confined_t)" in fact.detail
    assert ("of a container" in fact.remedy) is suspected


@pytest.mark.parametrize(
    ("enforce", "suspected", "said"),
    [("1", True, "is 1: enforcing"), ("0", False, "is 0: permissive"), (None, True, "cannot be read here")],
)
def test_selinux_is_the_cause_only_where_it_enforces(
    enforce: str | None, suspected: bool, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file was read; where it cannot be (in a container), the policy may be the cause."""
    files = {"sys/kernel/security/lsm": "capability,selinux,bpf"}
    if enforce is not None:
        files["sys/fs/selinux/enforce"] = enforce
    monkeypatch.setattr(bpf_syscalls, "try_raw_tracepoint", lambda *_: 13)
    monkeypatch.setattr(capabilities, "lacking", lambda *_, **__: ())
    fact = by_name(read_capabilities(write(tmp_path, files)))["security-modules"]
    assert fact.available is not suspected
    assert f"/sys/fs/selinux/enforce {said}" in fact.detail
    assert ("type: spc_t" in fact.remedy) is suspected


def test_a_lockdown_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the file says: a program that reads kernel memory is refused or not."""
    tree = write(tmp_path, {"sys/kernel/security/lockdown": "none [integrity] confidentiality"})
    monkeypatch.setattr(bpf_syscalls, "try_raw_tracepoint", lambda *_: 0)
    for error, available in ((0, True), (22, False)):
        monkeypatch.setattr(bpf_syscalls, "try_kernel_read", lambda error=error: error)
        fact = by_name(read_capabilities(tree))["lockdown"]
        assert fact.available is available
        assert "lockdown mode integrity; a program that reads kernel memory: " in fact.detail


def test_the_wrong_bcc_is_recognised(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The unrelated package of the same name, and a broken library, are told apart from a missing one."""

    class Unrelated:
        __file__ = "/site-packages/bcc/__init__.py"

    monkeypatch.setattr(capabilities.importlib, "import_module", lambda _: Unrelated())
    assert "another project's bcc" in by_name(read_capabilities(tmp_path))["bcc"].detail

    def broken(_: str) -> None:
        raise OSError("libbcc.so.0: cannot open shared object file")

    monkeypatch.setattr(capabilities.importlib, "import_module", broken)
    assert "libbcc.so.0" in by_name(read_capabilities(tmp_path))["bcc"].detail


def test_verbs_follow_from_what_they_need() -> None:
    """A verb lacks exactly the missing capabilities that name it; a variant lacks its verb's as well."""

    def fact(name: str, available: bool, *verbs: str) -> Capability:
        return Capability(name=name, available=available, detail="x", needed_by=verbs)

    verbs = working_verbs((fact("a", False, "run"), fact("b", True, "run"), fact("c", False, "run --runtime runc")))
    assert verbs["run"] == ("a",)
    assert verbs["run --runtime runc"] == ("a", "c")
    assert verbs["run --runtime crun"] == ("a",)
    assert verbs["watch"] == ()


def test_doctor_lists_exactly_the_verbs_that_there_are() -> None:
    """The verbs of ``pinproof --help``, each once and no other; what a capability says it is needed by is one."""
    offered = CliRunner().invoke(cli, ["--help"]).output.partition("Commands:")[2]
    verbs = [line.split()[0] for line in offered.splitlines() if line.startswith("  ") and line[2] != " "]
    report = json.loads(CliRunner().invoke(doctor.command, ["--json"]).output)

    listed = [verb for verb in report["verbs"] if " --" not in verb]
    assert sorted(listed) == sorted(verbs)
    named = {verb for fact in report["capabilities"] for verb in fact["needed_by"]}
    assert named <= set(report["verbs"])
    for variant in set(report["verbs"]) - set(listed):
        verb, option, value = variant.split()
        helped = CliRunner().invoke(cli, [verb, "--help"]).output
        assert option in helped
        assert value in helped


def test_no_verb_needs_root_but_container_runtimes() -> None:
    """Each verb works with the capabilities that it needs, whatever the user; runc and crun are root's."""
    fact = Capability(name="root", available=False, detail="x", needed_by=_root().needed_by)

    lacking = {name for name, missing in working_verbs((fact,)).items() if missing}
    assert lacking == {"run --runtime runc", "run --runtime crun"}


@pytest.mark.parametrize("verb", ["run", "conformance", "watch", "inject"])
def test_a_verb_that_makes_cgroups_is_said_to_need_a_place_for_them(verb: str, tmp_path: Path) -> None:
    """A hierarchy that cannot be written to is a cause, with its remedy; what only reads does without."""
    place = tmp_path / "cgroup"
    place.mkdir()
    hierarchy = Hierarchy(root=tmp_path, mode=Mode.V2, unified=place, legacy=())
    assert own_cgroups(hierarchy).available

    place.rmdir()
    fact = own_cgroups(hierarchy)
    assert "No such file" in fact.detail
    lacking = {name for name, missing in working_verbs((fact,)).items() if missing}
    assert verb in lacking
    assert not lacking & {"plan", "claims", "capture", "judge", "cleanup", "doctor"}


@pytest.mark.parametrize(("available", "code"), [(True, 0), (False, 4)])
def test_doctor_ends_with_the_hosts_answer(monkeypatch: pytest.MonkeyPatch, available: bool, code: int) -> None:
    """Exit code 0 where `run` works, 4 where not; the table and the JSON say the same."""
    fact = Capability(name="btf", available=available, detail="d", remedy="get it", needed_by=("run",))
    report = HostReport(capabilities=(fact,), verbs=working_verbs((fact,)))
    monkeypatch.setattr(doctor, "read_capabilities", lambda: report)

    text = CliRunner().invoke(doctor.command, [])
    assert text.exit_code == code
    assert ("get it" in text.output) is not available

    as_json = CliRunner().invoke(doctor.command, ["--json"])
    assert as_json.exit_code == code
    assert json.loads(as_json.output)["can_run"] is available


@pytest.mark.parametrize("missing", ["btf", "", "crun"])
def test_the_kernel_is_asked_for_the_probes_where_all_else_is_there(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """The answer stands behind the compiler's row; what is missing before that is the cause, and is not asked twice."""
    refused = Capability(name="probes", available=False, detail="d", remedy="r", needed_by=("run", "watch"))
    monkeypatch.setattr(probe_capability, "try_programs", lambda root: refused)
    needed_by = {"btf": ("run", "watch"), "bcc": ("run", "watch"), "crun": ("run --runtime crun",)}
    facts = tuple(
        Capability(name=name, available=name != missing, detail="d", needed_by=verbs)
        for name, verbs in needed_by.items()
    )
    report = with_probes(HostReport(capabilities=facts, verbs=working_verbs(facts)))

    names = [fact.name for fact in report.capabilities]
    assert names == (["btf", "bcc", "crun"] if missing == "btf" else ["btf", "bcc", "probes", "probe-cache", "crun"])
    assert report.verbs["run"] == (("btf",) if missing == "btf" else ("probes",))


def test_doctor_lists_exactly_the_verbs_that_exist() -> None:
    """A verb is a module of the command line with a command of that name: each is in --help and in doctor, no other."""
    folder = Path(doctor.__file__).parent
    modules = {path.stem: importlib.import_module(f"toolkit.cli.{path.stem}") for path in folder.glob("*.py")}
    commands = {module.command.name for module in modules.values() if hasattr(module, "command")}
    said = json.loads(CliRunner().invoke(cli, ["doctor", "--json"]).stdout)["verbs"]
    assert {verb for verb in said if " " not in verb} == commands == set(VERBS)
    assert {verb.split(" ")[0] for verb in said} == commands
