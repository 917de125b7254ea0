"""Alert rules and dashboard: they are valid, name metrics and labels that exist, and each alert fires when it must."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import yaml
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.monitoring import DASHBOARDS, RULES, alerts, dashboard_queries, panels
from tests.programs import needed
from tests.unit.toolkit.cli.command_line import pinproof
from tests.unit.toolkit.fleet.fleet_builder import save, session
from tests.unit.validators.evidence_builder import claim_set, evidence, intruder
from toolkit.model.evidence import OwnerClass
from toolkit.model.result import make_result
from toolkit.report.metrics import registry_of
from toolkit.session.windows.counters import Counters, SessionState
from toolkit.timeline.ran import asked
from validators.registry import judge

CASES = Path(__file__).resolve().parents[1] / "data/prometheus/alerts_test.yml"
SET_BY_PROMETHEUS = {"instance", "job", "pinproof"}
"""The last one by the list of its targets: ``pinproof="expected"``."""


def exported() -> dict[str, set[str]]:
    """Metric -> its labels, of a session that has everything that can be exported."""
    found = replace(evidence(), bpf_run_ns=1, intruders=(intruder(OwnerClass.SYSTEM),))
    result = make_result(found, judge(claim_set(), found), unknown=None)
    counters = Counters()
    counters.add(found, asked(found).rows)
    counters.judged(result)
    look = SessionState(counters=counters, open=found, last=result, window_s=30.0)
    text = generate_latest(registry_of(claim_set, lambda: look, judge)).decode()
    return {
        sample.name: set(sample.labels)
        for one in (text, of_fleet())
        for family in text_string_to_metric_families(one)
        for sample in family.samples
    }


@cache
def of_fleet() -> str:
    """The textfile of an answer about three hosts, of which one fails and one is missing."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        save(place, "a", session("a"))
        save(place, "b", session("b", fails="cpuset-containment"))
        pinproof("fleet", place, "--expect", "a,b,c", "--textfile", place / "fleet.prom")
        return (place / "fleet.prom").read_text()


def queries() -> list[str]:
    """Everything that is asked of Prometheus."""
    variables = [one for path in DASHBOARDS for one in json.loads(path.read_text())["templating"]["list"]]
    asked = [one["query"]["query"] for one in variables if one["type"] == "query"]
    return [*alerts().values(), *dashboard_queries(), *asked]


def test_every_metric_and_label_that_is_asked_for_exists() -> None:
    """A query of a metric or of a label that is not exported is an empty panel, or an alert that never fires."""
    known = exported()
    for query in queries():
        # Within braces a state set's label has the name of its metric.
        asked = set(re.findall(r"\bpinproof_\w+", re.sub(r"\{[^}]*\}|\bby \([^)]*\)", "", query)))
        assert asked, query
        assert asked <= set(known), query
        labels = set().union(*(known[name] for name in asked)) | SET_BY_PROMETHEUS
        matched = re.findall(r"(\w+)(?:=~|!=|!~|=)\"", query)
        grouped = [one.strip() for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", query) for one in group.split(",")]
        assert {*matched, *grouped} <= labels, query


def test_every_metric_has_a_query() -> None:
    """What is exported is shown or alerts, apart from what is listed here."""
    text = " ".join(queries())
    beside = {
        "pinproof_window_seconds",
        "pinproof_watched_seconds_total",
        "pinproof_proc_scans_total",
        "pinproof_run_seconds_total",
        "pinproof_switches_total",
        "pinproof_out_of_set_switches_total",
        "pinproof_summed_series",
        "pinproof_summed_verdicts",
    }
    assert {name for name in exported() if not re.search(rf"\b{name}\b", text)} == beside


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda path: path.stem)
def test_every_panel_is_whole(dashboard: Path) -> None:
    """Panels have ids of their own, titles and descriptions; no two overlap."""
    taken: set[tuple[int, int]] = set()
    for panel in panels(dashboard):
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert panel["title"]
        assert panel["type"] == "row" or (panel["description"] and panel["targets"]), panel["title"]
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert len({panel["id"] for panel in panels(dashboard)}) == len(panels(dashboard))


def test_dashboards_are_two() -> None:
    """Grafana knows them apart by ``uid``; every variable that a query names is one of its dashboard's."""
    documents = [json.loads(path.read_text()) for path in DASHBOARDS]
    assert len({document["uid"] for document in documents}) == len(documents)
    for document in documents:
        known = {one["name"] for one in document["templating"]["list"]} | {"__rate_interval"}
        used = set(re.findall(r"\$\{?(\w+)", json.dumps(document))) - {"__all"}
        assert used <= known


def promtool(*arguments: str, text: str = "") -> str:
    """Run promtool; returns what it said."""
    done = subprocess.run(
        [needed("promtool", "prometheus"), *arguments],
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_rules_are_valid() -> None:
    """``promtool check rules`` of the alert rules finds every alert."""
    assert f"{len(alerts())} rules found" in promtool("check", "rules", str(RULES))


def test_queries_of_the_dashboard_are_valid(tmp_path: Path) -> None:
    """Each query of the dashboard is PromQL: as a recording rule it passes ``promtool check rules``."""
    rules = [{"record": f"asked:{number}", "expr": query} for number, query in enumerate(dashboard_queries())]
    path = tmp_path / "asked.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "asked", "rules": rules}]}))

    assert f"{len(rules)} rules found" in promtool("check", "rules", str(path))


def test_each_alert_fires_and_stays_silent() -> None:
    """``promtool test rules``: every alert has a case in which it fires and one in which it does not."""
    said: dict[str, set[bool]] = {}
    for case in yaml.safe_load(CASES.read_text())["tests"]:
        for one in case["alert_rule_test"]:
            said.setdefault(one["alertname"], set()).add(bool(one["exp_alerts"]))
    assert set(said) == set(alerts())
    silent_among_others = {"PinproofUndecided"}  # its case has a node for which it does not fire
    assert {name for name, both in said.items() if both != {True, False}} == silent_among_others
    assert "SUCCESS" in promtool("test", "rules", str(CASES))


def test_metrics_pass_promtool() -> None:
    """``promtool check metrics`` has nothing to say about what is exported."""
    found = evidence()
    text = generate_latest(registry_of(claim_set, lambda: SessionState(open=found, window_s=30.0), judge)).decode()

    assert promtool("check", "metrics", text=text) == ""


@pytest.mark.parametrize("broken", ["pinproof_observer_upp == 0", 'pinproof_windows_total{result="failed"}'])
def test_a_wrong_name_is_found(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail: a metric or a label that does not exist is found."""
    monkeypatch.setitem(globals(), "queries", lambda: [broken])
    with pytest.raises(AssertionError):
        test_every_metric_and_label_that_is_asked_for_exists()
