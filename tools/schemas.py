"""The JSON Schemas of all files, generated from the dataclasses and shipped in ``toolkit/schemas``.

``python -m tools.schemas`` writes them anew; a test compares the shipped ones with what this module generates.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from toolkit.fleet.answer import FleetAnswer
from toolkit.fleet.values import Comparison
from toolkit.model.node_record import NodeRecord
from toolkit.model.serde import json_schema
from toolkit.scenario_file import ScenarioDocument
from toolkit.sources.claims_file import ClaimsDocument
from toolkit.store import STAGES, schema_of

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FILES = {"claims-file": ClaimsDocument, "scenario-file": ScenarioDocument}
"""Files that users write (YAML), as against those of the run directory."""
OTHERS: dict[str, tuple[type[Any], str]] = {
    "comparison": (Comparison, "what compare --json prints"),
    "fleet": (FleetAnswer, "what fleet --json prints"),
    "record": (NodeRecord, "RESULTS/<host>/record.json of a fleet's controller"),
}
"""What has a version of its own and is no stage of a run, and where it is found."""
NAMES = (*STAGES, *OTHERS, *FILES)


def generate(name: str) -> dict[str, object]:
    """Return the schema of one file: ``claims``, ``evidence``, ``result`` and so on, or of ``compare --json``."""
    if name in FILES:
        return {**json_schema(FILES[name]), "$schema": DIALECT, "title": f"pinproof {name}"}
    kind, found = OTHERS[name] if name in OTHERS else (STAGES[name], f"{name}.json of a run directory")
    schema = json_schema(kind)
    properties = schema["properties"]
    assert isinstance(properties, dict)
    stated = properties.get("schema", {}).get("const")
    identity = stated or schema_of(name)
    required = schema.get("required", [])
    assert isinstance(required, list)
    others = {key: value for key, value in properties.items() if key != "schema"}
    return {
        **schema,
        "$schema": DIALECT,
        "title": f"pinproof {name}",
        "description": found,
        "properties": {"schema": {"const": identity, "type": "string"}, **others},
        "required": ["schema", *(key for key in required if key != "schema")],
    }


def shipped(name: str) -> dict[str, object]:
    """Return the schema that the package carries."""
    text = resources.files("toolkit").joinpath("schemas", f"{name}.json").read_text(encoding="utf-8")
    schema = json.loads(text)
    assert isinstance(schema, dict)
    return schema


def write(folder: Path) -> None:
    """Write every schema into a folder."""
    folder.mkdir(exist_ok=True)
    for name in NAMES:
        text = json.dumps(generate(name), indent=1, sort_keys=True, ensure_ascii=False)
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(__file__).resolve().parents[1] / "toolkit/schemas")
