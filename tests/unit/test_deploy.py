"""What deploys pinproof: one source, manifests that agree with it and each other, no privilege beside the list."""

from __future__ import annotations

import json
import re
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from toolkit.cli.main import cli
from tools import deploy

FILES = deploy.generate()
CHART = "helm/pinproof"
_ACTION = re.compile(r"{{-?\s*(.*?)\s*-?}}")


def filled(text: str, values: dict[str, Any]) -> Any:
    """Fill a template as Helm does, as far as ours go: a value, a list with a value behind it, a condition."""

    def answer(found: re.Match[str]) -> str:
        action = found[1]
        if action.startswith("if ") or action == "end":
            return ""
        listed = re.fullmatch(r"concat \(list (.*)\) \.Values\.(\S+) \| toJson", action)
        name = listed[2] if listed else action.removeprefix(".Values.").removesuffix(" | toJson")
        value = reduce(lambda place, key: place[key], name.split("."), values)
        words = json.loads(f"[{listed[1].replace(chr(34) + ' ' + chr(34), chr(34) + ',' + chr(34))}]") if listed else []
        return json.dumps([*words, *value] if listed else value)

    return yaml.safe_load(_ACTION.sub(answer, text))


def containers() -> list[dict[str, Any]]:
    """The containers of all plain manifests."""
    found = [yaml.safe_load(FILES[f"kustomize/{name}"]) for name in ("daemonset.yaml", "conformance/job.yaml")]
    return [one for manifest in found for one in manifest["spec"]["template"]["spec"]["containers"]]


@pytest.mark.parametrize("name", FILES)
def test_the_files_are_those_that_are_generated(name: str) -> None:
    """`python -m tools.deploy` writes them anew."""
    assert (deploy.ROOT / deploy.FOLDER / name).read_text() == FILES[name]


def test_no_other_file_lies_beside_them() -> None:
    """But the one that is written by hand."""
    folder = deploy.ROOT / deploy.FOLDER
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert there == {*FILES, "README.md"}


@pytest.mark.parametrize(
    ("template", "manifest"),
    [("serviceaccount", "serviceaccount"), ("daemonset", "daemonset"), ("job", "conformance/job")],
)
def test_the_chart_with_its_defaults_is_the_plain_manifest(template: str, manifest: str) -> None:
    """Value by value."""
    values = yaml.safe_load(FILES[f"{CHART}/values.yaml"])
    chart = filled(FILES[f"{CHART}/templates/{template}.yaml"], values)
    assert chart == yaml.safe_load(FILES[f"kustomize/{manifest}.yaml"])


def test_every_setting_has_an_effect() -> None:
    """A value that no template reads would be a promise without anything behind it."""
    templates = "".join(text for name, text in FILES.items() if name.startswith(f"{CHART}/templates/"))
    assert [one.name for one in deploy.SETTINGS if f".Values.{one.name} " not in templates] == []


def test_every_command_line_is_one_that_pinproof_takes() -> None:
    """The options exist, and their values are understood: `--help` behind them is reached."""
    words = [one["args"] for one in containers()]
    for name, text in FILES.items():
        words += [
            line.split()[1:] for line in text.splitlines() if name.startswith("systemd/") and "ExecStart=" in line
        ]
    assert len(words) == 4
    for arguments in words:
        known = {name for option in cli.get_command(None, arguments[0]).params for name in option.opts}  # type: ignore[arg-type,union-attr]
        assert {word for word in arguments if word.startswith("--")} <= known
        assert CliRunner().invoke(cli, [*arguments, "--help"]).exit_code == 0


def test_no_container_has_more_than_the_list(tmp_path: Path) -> None:
    """All capabilities are dropped but those that were found to be needed; nothing is privileged or written to."""
    for container in containers():
        context = container["securityContext"]
        assert context["capabilities"]["drop"] == ["ALL"]
        assert set(context["capabilities"]["add"]) - {"SYS_NICE"} == set(deploy.CAPABILITIES)
        assert (context["privileged"], context["allowPrivilegeEscalation"]) == (False, False)
        assert context["readOnlyRootFilesystem"]
        (host,) = [mount for mount in container["volumeMounts"] if mount["name"] == "host"]
        assert host["readOnly"]


def test_the_units_have_the_same_list_and_are_no_users_root() -> None:
    """Bounding and ambient set agree with the containers'."""
    listed = " ".join(f"CAP_{one}" for one in deploy.CAPABILITIES)
    for name, text in deploy.systemd().items():
        if name.endswith(".service"):
            assert f"AmbientCapabilities={listed}\nCapabilityBoundingSet={listed}\n" in text
            assert "User=pinproof\n" in text
