"""Manual pages and completion say what the command line takes: each verb and option, and nothing that it refuses."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from toolkit.cli.main import cli
from toolkit.verbs import VERBS
from tools import manual

PAGES = manual.pages(0.0)
ROOT = click.Context(cli, info_name="pinproof")


def verb_named(verb: str) -> click.Command:
    """The command of a verb."""
    command = cli.get_command(ROOT, verb)
    assert command is not None
    return command


def options_of(command: click.Command) -> Iterator[str]:
    """Every option of a command and of the commands within it, as it is typed."""
    for one in command.params:
        if isinstance(one, click.Option) and not one.hidden:
            yield from (*one.opts, *one.secondary_opts)
    for inner in (command.commands if isinstance(command, click.Group) else {}).values():
        yield from options_of(inner)


def read(page: str) -> str:
    """A page as its reader sees it, without fonts."""
    return re.sub(r"\\f[BIR]", "", page).replace("\\-", "-").replace("\\&", "")


def test_every_verb_has_a_page_and_every_page_a_verb() -> None:
    """Also the program itself, whose page names all of them."""
    assert set(PAGES) == {"pinproof.1", *(f"pinproof-{verb}.1" for verb in VERBS)}
    for verb in VERBS:
        assert f"pinproof-{verb}(1)" in read(PAGES["pinproof.1"])


@pytest.mark.parametrize("verb", list(VERBS))
def test_a_page_has_every_option(verb: str) -> None:
    """Each as the head of a paragraph; what it does stands below."""
    heads = re.findall(r"^\.TP\n(.*)\n(?=[^.])", PAGES[f"pinproof-{verb}.1"], re.MULTILINE)
    named = {word.rstrip(",") for head in heads for word in read(head).split() if word.startswith("-")}

    assert named == {"-h", "--help", *options_of(verb_named(verb))}


def test_pages_are_read_without_a_complaint(tmp_path: Path) -> None:
    """By the program behind man: no warning. And each has the line by which `man -k` finds it."""
    if None in map(shutil.which, ("groff", "lexgrog")):
        pytest.skip("man-db is not installed")
    for name, text in PAGES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    files = [str(tmp_path / name) for name in PAGES]
    shown = subprocess.run(
        ["groff", "-k", "-man", "-ww", "-z", "-Tutf8", *files], capture_output=True, text=True, check=True
    )
    assert shown.stderr == ""
    known = subprocess.run(["lexgrog", *files], capture_output=True, text=True, check=True).stdout
    assert {line.split('"')[1].split(" - ")[0] for line in known.splitlines()} == {name[:-2] for name in PAGES}


@pytest.fixture(scope="module")
def completions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of all shells."""
    pytest.importorskip("shtab", reason="shtab makes the completion (pip install -e '.[dev]')")
    from tools import completion

    folder = tmp_path_factory.mktemp("share")
    for place, text in completion.scripts():
        (folder / place).parent.mkdir(parents=True)
        (folder / place).write_text(text, encoding="utf-8")
    return folder


def completed(completions: Path, *lines: str) -> list[set[str]]:
    """What bash offers at the end of each line, by the function that the file registers for the program."""
    ask = """
        source "$1"; shift
        for line; do
            read -ra COMP_WORDS <<< "$line"
            [[ $line != *' ' ]] || COMP_WORDS+=("")
            COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
            registered=$(complete -p pinproof); registered=${registered#*-F }
            "${registered%% *}" pinproof "${COMP_WORDS[COMP_CWORD]}"
            compgen -W "${COMPREPLY[*]}" | tr '\\n' ' '
            echo
        done
    """
    file = str(completions / "bash-completion/completions/pinproof")
    done = subprocess.run(["bash", "-c", ask, "bash", file, *lines], capture_output=True, text=True, check=True)
    return [set(line.split()) for line in done.stdout.splitlines()]


def test_bash_completes_verbs_and_every_option(completions: Path) -> None:
    """All verbs after the program, all options after each verb."""
    verbs, *options = completed(completions, "pinproof ", *(f"pinproof {verb} -" for verb in VERBS))

    assert verbs == set(VERBS)
    for verb, offered in zip(VERBS, options, strict=True):
        within = verb_named(verb)
        own = {word for one in within.params if isinstance(one, click.Option) for word in one.opts}
        assert offered - {"-h", "--help"} == own, verb


def test_bash_completes_what_an_option_takes(completions: Path, tmp_path: Path) -> None:
    """Words of a choice, the names of rules and faults, commands within a verb, files."""
    (tmp_path / "claims.yaml").touch()
    detail, rules, within, faults, files = completed(
        completions,
        "pinproof watch --metrics-detail ",
        "pinproof explain quota-",
        "pinproof runs ",
        "pinproof inject irq",
        f"pinproof watch --claims {tmp_path}/cl",
    )

    assert detail == {"rule", "claim"}
    assert rules == {"quota-free", "quota-throttling"}
    assert within == {"list", "rm"}
    assert faults == {"irq-moved"}
    assert files == {f"{tmp_path}/claims.yaml"}


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_their_file(completions: Path, shell: str) -> None:
    """It parses, and has every verb."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (file,) = (path for path in completions.rglob("*pinproof*") if path.is_file() and shell in str(path))

    subprocess.run([shell, "-n", str(file)], check=True)
    assert set(VERBS) <= set(
        file.read_text(encoding="utf-8").replace('"', " ").replace(":", " ").replace("'", " ").split()
    )
