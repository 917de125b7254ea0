"""A plan for people: the table of containers, the reasons, the warnings."""

from __future__ import annotations

from toolkit.model.cpuset import cpus_text
from toolkit.model.plan import ContainerPlan, Plan, PodPlan
from toolkit.report.layout import paragraph, table


def render(plan: Plan) -> str:
    """Return the table of containers and the reasons."""
    strict = " (strict)" if plan.strict_reservation else ""
    reserved = f"reserved {cpus_text(plan.reserved_cpus or 'none')}{strict}"
    parts = [
        f"CPU Manager {plan.cpu_manager_policy}, {reserved}, shared pool {plan.default_cpus or 'empty'}",
        table(
            [row for pod in plan.pods for row in _rows(pod)],
            ("pod", "container", "QoS", "CPUs", "isolation", "mems", "quota us", "shares"),
        ),
    ]
    reasons = [line for pod in plan.pods for line in _reasons(pod)]
    if reasons:
        parts.append("Why:\n" + "\n".join(paragraph(line, "  ", "    ") for line in reasons))
    parts += [paragraph(f"Warning: {warning}", "", "  ") for warning in plan.warnings]
    return "\n\n".join(parts)


def _rows(pod: PodPlan) -> list[list[str]]:
    if not pod.admitted:
        return [[pod.name, "", pod.qos_class.value, "refused", "", "", "", ""]]  # the reasons below have the words
    rows = [[pod.name, container.name, pod.qos_class.value, *_cells(container)] for container in pod.containers]
    return [
        *rows,
        [
            pod.name,
            "(pod)",
            "",
            str(pod.cpus or ""),
            "",
            "",
            quota_text(pod.quota_us, pod.period_us),
            str(pod.shares),
        ],
    ]


def _cells(container: ContainerPlan) -> list[str]:
    quota = quota_text(container.quota_us, container.period_us)
    mems = "" if container.mems is None else str(container.mems)
    return [str(container.cpus) or "any", container.isolation.value, mems, quota, str(container.shares)]


def quota_text(quota_us: int, period_us: int) -> str:
    """Return ``150000/100000``, the quota per period in microseconds, as in the kernel's files."""
    return "none" if quota_us < 0 else f"{quota_us}/{period_us}"


def _reasons(pod: PodPlan) -> list[str]:
    lines = [f"{pod.name}: {reason}" for reason in pod.reasons]
    if not pod.admitted:
        lines.append(f"{pod.name}: refused with {pod.reason}: {pod.message}")
    lines += [f"{pod.name}/{container.name}: {reason}" for container in pod.containers for reason in container.reasons]
    return lines
