"""A repository that stands alone: what is cited exists in ``docs/``, and nothing is cited that cannot be opened."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TEXTS = (".py", ".md", ".h", ".c", ".yaml", ".yml", ".toml", ".sh", ".mk")
ELSEWHERE = re.compile(r"\b(field|design|style|lab)\.md\b|\bseeds?[ /]00\d|\.\./shared/")
"""Documents that came from elsewhere and are in no checkout."""
LINK = re.compile(r"docs/[a-z-]+\.md")
ONE = r"\b[KFCP]\d+(?:-[KFCP]?\d+)?\b|\bK-[a-z]+(?:-\d+)?"
CITED = re.compile(rf"docs/(facts|failures|catalogue)\.md(?:``|`)?((?:[\s,;()]|and|{ONE})*)")
IDS = re.compile(r"\b([KFCP])(\d+)(?:-[KFCP]?(\d+))?\b|\b(K-[a-z]+(?:-\d+)?)")


def texts() -> list[Path]:
    """Return the files of the repository that people read, this one left out."""
    try:
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no git checkout: which files are the repository's is not known")
    found = [ROOT / name for name in listed.split("\n") if name.endswith(TEXTS)]
    return [path for path in found if path.is_file() and path != Path(__file__).resolve()]


def defined() -> set[str]:
    """Return every id that a table row, a range in one, or an item of ``docs/`` explains."""
    found: set[str] = set()
    for path in DOCS.glob("*.md"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith(("| ", "- **")):
                head = line.split("|")[1] if line.startswith("|") else line.split("**")[1]
                found |= ids(head.replace(" to ", "-"))
    return found


def ids(text: str) -> set[str]:
    """Return the ids in a text, ranges spelled out."""
    found: set[str] = set()
    for letter, first, last, named in IDS.findall(text):
        if named:
            found.add(named)
        else:
            found |= {f"{letter}{number}" for number in range(int(first), int(last or first) + 1)}
    return found


def test_nothing_is_cited_that_cannot_be_opened() -> None:
    """No text names a document that is in no checkout."""
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if ELSEWHERE.search(line)
    ]
    assert wrong == []


def test_what_is_cited_exists() -> None:
    """Files of ``docs/``, and the ids that are cited from them."""
    known, wrong = defined(), []
    assert {"K1", "K32", "K-quota", "F1", "F67", "C45", "P24"} <= known
    for path in texts():
        text = path.read_text(encoding="utf-8")
        where = path.relative_to(ROOT)
        wrong += [f"{where}: {link}" for link in LINK.findall(text) if not (ROOT / link).exists()]
        for match in CITED.finditer(text):
            wrong += [f"{where}: {one} of docs/{match[1]}.md" for one in sorted(ids(match[2]) - known)]
    assert wrong == []


def test_links_between_documents_hold() -> None:
    """A link from one document to another names a file that is there."""
    for path in DOCS.glob("*.md"):
        for link in re.findall(r"\]\(([a-z-]+\.md)\)", path.read_text(encoding="utf-8")):
            assert (DOCS / link).exists(), f"{path.name}: {link}"


PATH = re.compile(r"(?<![\w./-])((?:toolkit|probes|validators|tests|ansible)/[\w./-]*\.(?:py|h|c|md|ya?ml|sh))\b")
"""A file of the tree, named from its root."""
MODULE = re.compile(r":mod:`~?((?:toolkit|probes|validators)[\w.]*)`")
NO_PROSE = re.compile(r"^```(?:diff|sh|python|yaml|json)?\n.*?^```", re.MULTILINE | re.DOTALL)


def prose(path: Path) -> str:
    """What a file says to people: a document without its blocks, the docstrings and comments of a Python file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return NO_PROSE.sub("", text)
    if path.suffix != ".py":
        return text
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    said = [ast.get_docstring(node) or "" for node in ast.walk(ast.parse(text)) if isinstance(node, owners)]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return "\n".join([*said, *(token.string for token in tokens if token.type == tokenize.COMMENT)])


def gone(text: str) -> list[str]:
    """Return the files and modules that a text names and the repository does not have."""
    places = [(name, ROOT / name) for name in PATH.findall(text)]
    places += [(name, ROOT / name.replace(".", "/")) for name in MODULE.findall(text)]
    return [name for name, place in places if not (place.exists() or place.with_suffix(".py").exists())]


def test_files_that_are_named_exist() -> None:
    """A file of the tree that a document, a docstring or a comment names is there; the CHANGELOG tells of others."""
    named = [path for path in texts() if path.name != "CHANGELOG.md" and gone(path.read_text(encoding="utf-8"))]
    # What is said to people is a part of the text: where all that the text names exists there is nothing to part.
    assert [f"{path.relative_to(ROOT)}: {name}" for path in named for name in gone(prose(path))] == []


def test_a_name_of_yesterday_is_noticed(tmp_path: Path) -> None:
    """In a document outside its code blocks, in a docstring, in a comment; not in a value."""
    (tmp_path / "x.md").write_text("See `toolkit/gone.py`, `tests/README.md`.\n```diff\n+++ b/toolkit/new.py\n```\n")
    (tmp_path / "x.py").write_text(
        '"""See :mod:`toolkit.gone`."""\nA = "probes/value.py"  # as probes/gone.h, probes/unit.py\n'
    )

    assert gone(prose(tmp_path / "x.md")) == ["toolkit/gone.py"]
    assert gone(prose(tmp_path / "x.py")) == ["probes/gone.h", "toolkit.gone"]


def test_the_examples_of_the_recipes_still_fit() -> None:
    """A line that a diff there leaves as it is stands in the file so."""
    wrong, held = [], 0
    for block in re.findall(r"^```diff\n(.*?)^```$", (DOCS / "recipes.md").read_text(), re.MULTILINE | re.DOTALL):
        lines: set[str] = set()
        for line in block.splitlines():
            if line.startswith("+++ b/"):
                path = ROOT / line.removeprefix("+++ b/")
                lines = set(path.read_text().splitlines()) if path.is_file() else set()
                wrong += [] if path.parent.is_dir() or block.count(f"{path.parent.name}/") > 1 else [line]
            elif line.startswith(" "):
                held += 1
                wrong += [] if line[1:] in lines else [f"{path.relative_to(ROOT)}: {line}"]
    assert wrong == []
    assert held > 5


PEOPLE = re.compile(r"\b(nobody|somebody|someone|anybody|everybody|whoever)\b", re.IGNORECASE)
OF_PEOPLE = (
    "docs/evidence.md",
    "toolkit/bundle.py",
    "toolkit/cli/bundle.py",
    "toolkit/cli/bundles.py",
    "report/statement.py",
    "tests/unit/toolkit/cli/test_bundle.py",
)
"""Signers, readers and reporters are people."""
PEOPLE_IN_NAMES = re.compile(r"def \w*?_(nobody|somebody|anybody|everybody|whoever)s?(?:_|\b)")


def test_programs_and_tasks_are_not_people() -> None:
    """What papers, sources and the names of tests say of programs and tasks names no person."""
    told = []
    for path in texts():
        text = path.read_text(encoding="utf-8")
        if not PEOPLE.search(text.replace("_", " ")) or str(path.relative_to(ROOT)).endswith(OF_PEOPLE):
            continue  # to part a text takes a hundred times as long
        words = [*PEOPLE.findall(prose(path)), *PEOPLE_IN_NAMES.findall(text)]
        told += [f"{path.relative_to(ROOT)}: {word}" for word in words]
    assert told == []
