"""Break a line, and see that the quick tests notice: ``make mutants``, or with ``ARGS`` those of some files.

Each edit is made to a copy of the tree, one after the other, and the test file beside it must fail there. Prints what
survives; exit code 1 if anything does, or if a line of the table is not in its file any more.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).resolve().parent.parent
LEFT_OUT = shutil.ignore_patterns(".*", "runs", "__pycache__", "integration", "lab", "benchmarks")
TIMEOUT_S = 300
"""A test that does not end is a test that noticed."""


class Mutant(NamedTuple):
    """One edit: in ``file`` the line ``old`` (without its indent) becomes ``new``, and ``test`` must fail."""

    file: str
    old: str
    new: str
    test: str

    def made(self, text: str) -> str | None:
        """Return a text with the edit; ``None`` where it does not have the line exactly once."""
        lines = text.split("\n")
        found = [number for number, line in enumerate(lines) if line.strip() == self.old]
        if len(found) != 1:
            return None
        (at,) = found
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        return "\n".join([*lines[:at], indent + self.new, *lines[at + 1 :]])


_PROBES, _RULES = "tests/unit/probes", "tests/unit/validators"
MUTANTS = (
    Mutant("probes/switches/tally.py", "ns=old.ns + more.ns,", "ns=max(old.ns, more.ns),", f"{_PROBES}/test_tally.py"),
    Mutant(
        "probes/switches/tally.py",
        "return epoch >> 8 == window & 0xFFFFFF",
        "return epoch >> 8 == window & 0xFF",
        f"{_PROBES}/test_tally.py",
    ),
    Mutant(
        "probes/switches/tally.py",
        'return Row(**(values | {"out_longest_ns": max(row.out_longest_ns, more.out_longest_ns)}))',
        "return Row(**values)",
        f"{_PROBES}/test_tally.py",
    ),
    Mutant(
        "probes/switches/trails.py",
        "limit = piece.now_ns + self._patience_ns",
        "limit = piece.now_ns",
        f"{_PROBES}/test_trails.py",
    ),
    Mutant(
        "probes/switches/trails.py",
        "before = [step for step in steps if step.at_ns <= piece.from_ns]",
        "before = [step for step in steps if step.at_ns < piece.from_ns]",
        f"{_PROBES}/test_trails.py",
    ),
    Mutant(
        "probes/switches/trails.py",
        "if not step.completes or step.ident != stay.ident or step.joined_ns > stay.from_ns:",
        "if not step.completes or step.ident != stay.ident:",
        f"{_PROBES}/test_trails.py",
    ),
    Mutant(
        "probes/switches/trails.py",
        "if any(step.at_ns >= piece.member_ns for step in steps):",
        "if steps:",
        f"{_PROBES}/test_trails.py",
    ),
    Mutant(
        "probes/switches/shares.py",
        "binds = stay.to_ns if stay.joining else min(stay.to_ns, max(stay.from_ns, bound.binds_from(piece.cpu)))",
        "binds = min(stay.to_ns, max(stay.from_ns, bound.binds_from(piece.cpu)))",
        f"{_PROBES}/test_shares.py",
    ),
    Mutant(
        "probes/switches/shares.py",
        "count = int(over and not (first and piece.flags & PIECE_COUNTED))",
        "count = int(over)",
        f"{_PROBES}/test_shares.py",
    ),
    Mutant(
        "probes/switches/shares.py",
        "self.cuts[place] = self.cuts.get(place, 0) + max(1, cuts)",
        "self.cuts[place] = self.cuts.get(place, 0) + cuts",
        f"{_PROBES}/test_shares.py",
    ),
    Mutant(
        "probes/switches/shares.py",
        "ident=0 if stay.joining else stay.ident,",
        "ident=stay.ident,",
        f"{_PROBES}/test_shares.py",
    ),
    Mutant(
        "probes/switches/published.py",
        "return max(self.since_ns, self.grace_until_ns) if cpu in self.grace else self.since_ns",
        "return self.since_ns",
        f"{_PROBES}/test_published.py",
    ),
    Mutant(
        "probes/switches/published.py",
        "return bounds[max(0, bisect_right(bounds, at_ns, key=lambda bound: bound.at_ns) - 1)]",
        "return bounds[-1]",
        f"{_PROBES}/test_published.py",
    ),
    Mutant("probes/cgroups/lives.py", "self.lives += 1", "self.lives = 1", f"{_PROBES}/test_lives.py"),
    Mutant(
        "validators/credibility/trust.py",
        "difference = coverage.switches_judged + untraced - counted",
        "difference = coverage.switches_judged - counted",
        f"{_RULES}/test_trust.py",
    ),
    Mutant(
        "validators/credibility/trust.py",
        "return every.weigh(verdict)  # A verdict about the node rests on the evidence of every claim.",
        "return shared.weigh(verdict)",
        f"{_RULES}/test_trust.py",
    ),
    Mutant(
        "validators/credibility/agreement.py",
        "least = -allowed - wakes_ns(evidence, rows)",
        "least = -allowed",
        f"{_RULES}/test_trust.py",
    ),
    Mutant(
        "validators/quota/bandwidth.py",
        "return self.lives * self.cpus * (self.slice_ns + 2 * self.tick_ns)",
        "return self.lives * self.cpus * (self.slice_ns + self.tick_ns)",
        f"{_RULES}/test_bandwidth_bounds.py",
    ),
    Mutant(
        "validators/rules/hugepages.py",
        "if used > limit.limit_bytes:",
        "if used >= limit.limit_bytes:",
        f"{_RULES}/test_rule_hugepages.py",
    ),
    Mutant(
        "validators/queries/view.py",
        "return changes[min(epoch, len(changes)) - 1].cpus_after",
        "return changes[-1].cpus_after",
        f"{_RULES}/test_rule_masks_and_files.py",
    ),
)
"""In rules, the tally, and where a task was when: one line each that decides an outcome."""


def run(project: Path, tests: Iterable[str]) -> bool:
    """Run test files of a tree; return whether all passed."""
    # Bytecode is known by time and length: that of the line before would be taken for the edit's.
    # Random examples are those of CI: what is caught must not depend on the day.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "CI": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command, cwd=project, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    if done.returncode not in (0, 1):
        print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
        raise SystemExit(f"mutants: the tests did not run: {' '.join(command)}")
    return done.returncode == 0


def survivors(project: Path, mutants: Iterable[Mutant]) -> list[str]:
    """Make each edit in a tree, and take it back; return those that no test noticed or that cannot be made."""
    found = []
    for mutant in mutants:
        path = project / mutant.file
        before = path.read_text(encoding="utf-8")
        after = mutant.made(before)
        if after is None:
            found.append(f"{mutant.file}: the line is not there once: {mutant.old}")
            continue
        path.write_text(after, encoding="utf-8")
        try:
            survives = run(project, [mutant.test])
        finally:
            path.write_text(before, encoding="utf-8")
        print(f"{'SURVIVES' if survives else 'caught':8}  {mutant.file}: {mutant.new}", flush=True)
        if survives:
            found.append(f"{mutant.file}: {mutant.old} -> {mutant.new} ({mutant.test})")
    return found


def main(names: list[str]) -> int:
    """Try the mutants of the named files, or all; return the exit code."""
    known = dict.fromkeys(mutant.file for mutant in MUTANTS)
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no mutants of {', '.join(unknown)}; there are of: {', '.join(known)}", file=sys.stderr)
        return 2
    chosen = [mutant for mutant in MUTANTS if not names or mutant.file in names]
    with tempfile.TemporaryDirectory(prefix="pinproof-mutants-") as folder:
        copy = Path(folder) / "tree"
        shutil.copytree(PROJECT, copy, ignore=LEFT_OUT)
        if not run(copy, sorted({mutant.test for mutant in chosen})):
            print("mutants: the tests fail without any", file=sys.stderr)
            return 1
        found = survivors(copy, chosen)
    print(f"{len(chosen) - len(found)} of {len(chosen)} caught")
    for line in found:
        print(f"  {line}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
