"""The example jobs of ``docs/ci``: they parse, and each call of pinproof in them is one that the program takes."""

from __future__ import annotations

import importlib
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from toolkit.verbs import VERBS

CI = Path(__file__).resolve().parents[2] / "docs/ci"
EXAMPLES = sorted(CI.iterdir())
CALL = re.compile(r"(?:^|[\s'])pinproof ([a-z]+\b[^\n'`]*)")
SHELL = {";", "|", "||", "&&", ">>", ">", "&"}


def calls(text: str) -> Iterator[list[str]]:
    """Yield the words after ``pinproof`` of every call in a file; comments are none."""
    for match in CALL.finditer(
        "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(("#", "//")))
    ):
        words = shlex.split(re.sub(r"\$\([^)]*\)", "SUBSTITUTED", match[1]), comments=True)
        end = next((at for at, word in enumerate(words) if word in SHELL), len(words))
        yield words[:end]


def parsed(words: list[str]) -> click.Context:
    """Parse a call as the program does, without doing anything."""
    command = importlib.import_module(f"toolkit.cli.{words[0]}").command
    context: click.Context = command.make_context(words[0], list(words[1:]))
    return context


def of_npd() -> list[list[str]]:
    document = json.loads((CI / "npd-pinproof.json").read_text())
    return [rule["args"] for rule in document["rules"]]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_call_is_taken(path: Path) -> None:
    """Verbs and options exist; each example calls something."""
    found = of_npd() if path.suffix == ".json" else list(calls(path.read_text()))
    assert found
    for words in found:
        assert words[0] in VERBS, words
        parsed(words)


@pytest.mark.parametrize("words", [["conformance", "--no-such-option"], ["report", "x", "--format", "braille"]])
def test_a_wrong_option_is_found(words: list[str]) -> None:
    """The test above can fail."""
    with pytest.raises(click.UsageError):
        parsed(words)


@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.suffix in (".yml", ".yaml")], ids=lambda p: p.name)
def test_yaml_parses(path: Path) -> None:
    """One document that is a mapping."""
    document: Any = yaml.safe_load(path.read_text())
    assert isinstance(document, dict)


def test_jobs_keep_the_evidence_of_a_failure() -> None:
    """What is red is what one wants to see: evidence is put together whatever the verdict."""
    gitlab = yaml.safe_load((CI / "gitlab-ci.yml").read_text())
    assert gitlab["conformance"]["artifacts"]["when"] == "always"
    github = yaml.safe_load((CI / "github-actions.yml").read_text())
    kept = [
        step for step in github["jobs"]["conformance"]["steps"] if "bundle" in step.get("run", "") or "uses" in step
    ]
    assert kept
    assert all(step["if"] == "always()" for step in kept)
    jenkins = (CI / "Jenkinsfile").read_text()
    assert jenkins.index("always {") < jenkins.index("pinproof bundle")
    assert jenkins.count("{") == jenkins.count("}")


def test_sonobuoy_is_told_of_its_format() -> None:
    """The file that the plugin names is the one that is written, and ``done`` comes last."""
    plugin = yaml.safe_load((CI / "sonobuoy-plugin.yaml").read_text())
    config = plugin["sonobuoy-config"]
    assert config["result-format"] == "manual"
    (script,) = plugin["spec"]["args"]
    assert f"/{config['result-files'][0]}" in script
    assert script.rstrip().endswith('> "$RESULTS_DIR/done"')
    mounted = {one["name"] for one in plugin["spec"]["volumeMounts"]} - {"results"}
    assert mounted == {one["name"] for one in plugin["extra-volumes"]}


def test_npd_gets_what_it_reads() -> None:
    """A line as long as it takes, within its time."""
    document = json.loads((CI / "npd-pinproof.json").read_text())
    assert document["pluginConfig"]["max_output_length"] == 80
    assert {rule["condition"] for rule in document["rules"]} == {one["type"] for one in document["conditions"]}
