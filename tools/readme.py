"""The tables of READMEs that repeat what code says, generated from it.

``python -m tools.readme`` writes them anew, each between two marks (``<!-- rules: begin … -->`` and
``<!-- rules: end -->``); a test compares what the files hold with what this module generates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from toolkit.allocation.cpu.options.option import CpuOption
from toolkit.allocation.cpu.options.registry import OPTIONS as CPU_OPTIONS
from toolkit.allocation.topology.options.registry import OPTIONS as TOPOLOGY_OPTIONS
from toolkit.errors import EXIT_CODES
from toolkit.kubernetes.releases import MODEL, Stage
from toolkit.kubernetes.releases import OPTIONS as HISTORY
from toolkit.model.runtimes import RUNTIMES, RuntimeKind
from toolkit.sources.claims_file import FILE_FIELDS
from toolkit.verbs import VERBS, Need
from tools import distributions
from tools.bpf_maps import described, map_row
from validators.registry import RULES

ROOT = Path(__file__).resolve().parents[1]
BEGIN = "<!-- {name}: begin, written by python -m tools.readme -->"
END = "<!-- {name}: end -->"


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    # A bar in a cell would end it.
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def rules() -> str:
    """Return the table of the rules."""
    rows = [
        (f"`{rule.id}`", rule.doc.claim, ", ".join(rule.doc.witnesses), rule.doc.negative_control) for rule in RULES
    ]
    return _table(("rule", "judges", "witnesses", "how to break it"), rows)


def exit_codes() -> str:
    """Return the table of the exit codes."""
    return _table(("exit code", "meaning"), ((str(code), text) for code, text in EXIT_CODES.items()))


def runtimes() -> str:
    """Return the table of the runtimes."""

    def row(kind: RuntimeKind) -> tuple[str, ...]:
        since = ".".join(map(str, kind.logarithmic_since or ()))
        return (
            f"`{kind.name}`",
            f"`{kind.program}`" if kind.program else "none: pinproof writes the cgroups",
            "v2, hybrid" if kind.hybrid else "v2",
            "in its cgroup" if kind.keeps_cgroup else "in a new cgroup, with another id",
            f"from {since} on" if since else "never",
        )

    titles = (
        "runtime",
        "command",
        "hosts",
        "started again, a container is",
        "logarithmic weights",
    )
    return _table(titles, map(row, RUNTIMES.values()))


def _maturity(option: str) -> str:
    stage = HISTORY[option].of(MODEL)
    return {Stage.GA: "Stable", None: ""}.get(stage) or str(stage).capitalize()


def options() -> str:
    """Return the table of the options of the CPU Manager's static policy and of the Topology Manager."""
    pairs = {frozenset((option.name, other)) for option in CPU_OPTIONS.values() for other in option.conflicts}

    def row(option: CpuOption) -> tuple[str, ...]:
        others = sorted(chain.from_iterable(pair - {option.name} for pair in pairs if option.name in pair))
        promise = option.promise
        guarantees = (promise.alignment, promise.in_budget) if promise else (None, None)
        return (
            f"`{option.name}`",
            f"static policy, {_maturity(option.name)}",
            ", ".join(f"`{other}`" for other in others),
            *(f"`{one}`" if one else "" for one in guarantees),
            f"`{promise.preference}`" if promise and promise.preference else "",
        )

    topology = (
        (
            f"`{one.name}`",
            f"Topology Manager, {_maturity(one.name)}",
            "",
            "",
            "",
            f"`{one.preference}`" if one.preference else "",
        )
        for one in TOPOLOGY_OPTIONS.values()
    )
    titles = ("option", "of", "not with", "guarantees", "in a pod with a budget", "prefers")
    return _table(titles, [*map(row, CPU_OPTIONS.values()), *topology])


_NEEDS = {
    Need.NOTHING: "",
    Need.FILES: "root, or capabilities",
    Need.OBSERVE: "root, or capabilities; a kernel that can be observed",
    Need.APPLY: "root, or capabilities; a kernel that can be observed, the cpu and cpuset controllers",
}


def verbs() -> str:
    """Return the table of the verbs."""
    rows = ((f"`{name}`", verb.does, _NEEDS[verb.needs]) for name, verb in VERBS.items())
    return _table(("verb", "what it does", "needs"), rows)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "must be given"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "not stated"
    words = str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{words}`" if value or isinstance(value, bool | int) else "none"


def fields_of(model: type[BaseModel]) -> str:
    """Return the table of a file's keys: what each means with its unit, and what holds where it is not given."""
    rows = (
        (f"`{field.alias or name}`", field.description or "", _default(field))
        for name, field in model.model_fields.items()
    )
    return _table(("key", "what it says", "where it is not given"), rows)


PRIVILEGES = {
    Need.NOTHING: "no privilege; of another user's files and sockets what that user may read",
    Need.FILES: "root, or `CAP_DAC_OVERRIDE`: files and sockets that are root's",
    Need.OBSERVE: "root, or the capabilities below; the host's process ids; a `/sys/fs/cgroup` that can be written to",
    Need.APPLY: "the same, on a machine without other work, with the controllers cpu and cpuset",
}


def privileges() -> str:
    """Return the table of what the verbs need."""
    rows = (
        (", ".join(f"`{name}`" for name, verb in VERBS.items() if verb.needs is need), words)
        for need, words in PRIVILEGES.items()
    )
    return _table(("verbs", "need"), rows)


def maps(root: Path = ROOT) -> str:
    """Return the table of the programs' maps, from the header comments of their sources."""
    folder = root / "probes"
    rows = [
        (f"`{name}`", f"[{path.name}]({path.relative_to(folder)})", *map_row(text))
        for path in sorted((*folder.glob("*/*.bpf.c"), *folder.glob("*/*.h")))
        for name, text in described(path.read_text(encoding="utf-8")).items()
    ]
    return _table(("map", "in", "kind", "key", "value", "size", "when it is full"), rows)


def tried(root: Path = ROOT) -> str:
    """Return the table of the distributions on which every verb was tried."""
    return _table(distributions.TITLES, map(distributions.row, distributions.records(root)))


BLOCKS: dict[str, tuple[Callable[[], str], tuple[str, ...]]] = {
    "rules": (rules, ("validators/README.md",)),
    "exit codes": (exit_codes, ("docs/verbs.md", "docs/principles.md")),
    "runtimes": (runtimes, ("toolkit/apply/README.md",)),
    "verbs": (verbs, ("docs/verbs.md",)),
    "maps": (maps, ("probes/README.md",)),
    "claims file": (partial(fields_of, FILE_FIELDS["file"]), ("docs/claims-file.md",)),
    "claims": (partial(fields_of, FILE_FIELDS["claims[]"]), ("docs/claims-file.md",)),
    "quota": (partial(fields_of, FILE_FIELDS["quota"]), ("docs/claims-file.md",)),
    "privileges": (privileges, ("docs/privileges.md",)),
    "options": (options, ("toolkit/allocation/README.md",)),
    "distributions": (tried, ("docs/distributions.md",)),
}
"""Name of a block -> what generates it, and the files that have it."""


def filled(text: str, name: str, table: str) -> str:
    """Return a text with a block filled anew; it must have the block once."""
    begin, end = BEGIN.format(name=name), END.format(name=name)
    block = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    made, count = block.subn(lambda _: f"{begin}\n{table}\n{end}", text)
    if count != 1:
        raise ValueError(f"{count} blocks {name!r}, expected one")
    return made


def generated(root: Path) -> dict[Path, str]:
    """Return each file that has blocks, with all of them filled anew."""
    texts: dict[Path, str] = {}
    for name, (table, files) in BLOCKS.items():
        for path in (root / file for file in files):
            texts[path] = filled(texts.get(path) or path.read_text(encoding="utf-8"), name, table())
    return texts


if __name__ == "__main__":
    for path, text in generated(ROOT).items():
        path.write_text(text, encoding="utf-8")
