"""The files of ansible/files that Prometheus and Grafana read, taken apart for their tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

FILES = Path(__file__).resolve().parents[1] / "ansible/files"
RULES = FILES / "pinproof.rules.yml"
DASHBOARD = FILES / "pinproof-dashboard.json"
FLEET_DASHBOARD = FILES / "pinproof-fleet-dashboard.json"
DASHBOARDS = (DASHBOARD, FLEET_DASHBOARD)


def alerts() -> dict[str, str]:
    """Alert -> its expression."""
    document = yaml.safe_load(RULES.read_text())
    return {rule["alert"]: rule["expr"] for group in document["groups"] for rule in group["rules"]}


def panels(dashboard: Path) -> list[dict[str, Any]]:
    """All panels of a dashboard."""
    found: list[dict[str, Any]] = json.loads(dashboard.read_text())["panels"]
    return found


def dashboard_queries(interval: str = "5m", dashboards: tuple[Path, ...] = DASHBOARDS) -> list[str]:
    """Every query of dashboards as Grafana asks it, with all instances and classes. :param interval: for rates."""
    return [
        target["expr"].replace("$__rate_interval", interval).replace("$instance", ".*").replace("$hardware", ".*")
        for dashboard in dashboards
        for panel in panels(dashboard)
        for target in panel.get("targets", ())
    ]
