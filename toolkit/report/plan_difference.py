"""What changes between two plans of the same pods: per container, per pod, and of the node. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolkit.model.plan import ContainerPlan, Plan, PodPlan
from toolkit.report.layout import fitted, paragraph
from toolkit.report.plan_text import quota_text

NODE = "(node)"
POD = "(pod)"
HEADERS = ("pod", "container", "what", "before", "after")


def plan_difference(before: Plan, after: Plan) -> list[dict[str, Any]]:
    """Return the differences: ``pod``, ``container`` (``null`` for a pod or the node), ``what``, ``before``, ``after``.

    A pod or container that is missing on one side has ``null`` values there.
    """
    rows = _changed(NODE, None, _node(before), _node(after))
    pods = [{pod.uid: pod for pod in plan.pods} for plan in (before, after)]
    for uid in dict.fromkeys((*pods[0], *pods[1])):
        left, right = pods[0].get(uid), pods[1].get(uid)
        name = next(pod.name for pod in (left, right) if pod is not None)
        rows += _changed(name, None, _pod(left), _pod(right))
        inner = [{c.name: c for c in pod.containers} if pod else {} for pod in (left, right)]
        for container in dict.fromkeys((*inner[0], *inner[1])):
            values = [_container(part.get(container)) for part in inner]
            rows += _changed(name, container, values[0], values[1])
    return rows


def difference_table(rows: list[dict[str, Any]]) -> str:
    """Return the table of :func:`plan_difference`, or a sentence where nothing differs."""
    if not rows:
        return paragraph(
            "Nothing changes: every container gets the same CPUs, memory nodes and quota, with the same guarantees."
        )
    cells = [
        (row["pod"], row["container"] or ("" if row["pod"] == NODE else POD), row["what"], *_texts(row)) for row in rows
    ]
    return fitted(cells, HEADERS, (3, 4), (0.5, 0.5))


def _texts(row: Mapping[str, Any]) -> tuple[str, str]:
    before, after = ("-" if row[side] is None else str(row[side]) for side in ("before", "after"))
    return before or "none", after or "none"


def _changed(
    pod: str, container: str | None, before: Mapping[str, str | None], after: Mapping[str, str | None]
) -> list[dict[str, Any]]:
    return [
        {"pod": pod, "container": container, "what": what, "before": before.get(what), "after": after.get(what)}
        for what in dict.fromkeys((*before, *after))
        # What a pod does not have on one side and has nothing of on the other is no change.
        if before.get(what) != after.get(what) and (before.get(what) or after.get(what))
    ]


def _node(plan: Plan) -> dict[str, str | None]:
    return {
        "CPU Manager": plan.cpu_manager_policy,
        "shared pool": str(plan.default_cpus),
        "reserved CPUs": f"{plan.reserved_cpus}{' (strict)' if plan.strict_reservation else ''}",
    }


def _pod(pod: PodPlan | None) -> dict[str, str | None]:
    if pod is None:
        return {}
    refusal = f"{pod.reason}: {pod.message}" if pod.message else pod.reason
    found: dict[str, str | None] = {"admission": "admitted" if pod.admitted else f"refused, {refusal}"}
    if pod.admitted:
        found |= {"CPUs": str(pod.cpus or ""), "quota us": quota_text(pod.quota_us, pod.period_us)}
        found["shares"] = str(pod.shares)
    return found


def _container(container: ContainerPlan | None) -> dict[str, str | None]:
    if container is None:
        return {}
    return {
        "CPUs": str(container.cpus) or "any",
        "isolation": container.isolation.value,
        "mems": "any" if container.mems is None else str(container.mems),
        "quota us": quota_text(container.quota_us, container.period_us),
        "shares": str(container.shares),
        # An option may promise what its CPUs had by chance before: another pod on the node would show it.
        "guaranteed": _guaranteed(container),
        "preferred": ", ".join(container.preferences),
        "devices": ", ".join(container.devices),
    }


def _guaranteed(container: ContainerPlan) -> str:
    most = container.max_numa_nodes
    nodes = [] if most is None else ["one NUMA node" if most == 1 else f"at most {most} NUMA nodes"]
    return ", ".join((*container.alignments, *nodes))
