"""A repository that stands alone: what is cited exists in ``docs/``, and nothing is cited that nobody can open."""

from __future__ import annotations

import re
import subprocess
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


def test_nothing_is_cited_that_nobody_can_open() -> None:
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
