"""Lines for people while a watch goes on: one per subject and cause, never an end of reporting. Pure but for its sums.

What a line says is a difference of the counters, so it is complete whatever the kernel reported at once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from toolkit.model.claims import ClaimSet, ExclusivePolicy
from toolkit.model.evidence import Evidence, OwnerClass
from toolkit.model.wording import count

TOP = 3
"""System tasks that are named on a line."""
FLOOR_NS = 1_000_000
"""System tasks that ran for less on a CPU, together, are not worth a line."""
Place = tuple[str, int]
"""A claim and a CPU outside its set."""


@dataclass(slots=True)
class Pending:
    """What has happened since the last lines; of a window that is open only what a look has shown."""

    outside_ns: Counter[Place] = field(default_factory=Counter)
    switches: Counter[Place] = field(default_factory=Counter)
    threads: dict[Place, set[int]] = field(default_factory=lambda: defaultdict(set))
    visitors_ns: dict[tuple[int, str], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """By exclusive CPU and owner: system tasks."""
    _seen: dict[Place, tuple[int, int]] = field(default_factory=dict)
    _window_ns: int = -1

    def look(self, evidence: Evidence) -> bool:
        """Take what is new in a window, open or ended; returns whether anything ran outside."""
        if evidence.start_monotonic_ns != self._window_ns:
            self._window_ns, self._seen = evidence.start_monotonic_ns, {}
        new = False
        for row in evidence.cpu_use:
            place, now = (row.claim, row.cpu), (row.out_of_set_ns, row.out_of_set_switches)
            old = self._seen.get(place, (0, 0))
            if now > old:
                new = True
                self._seen[place] = now
                self.outside_ns[place] += max(0, now[0] - old[0])
                self.switches[place] += max(0, now[1] - old[1])
        for one in evidence.offenders:
            if (one.claim, one.cpu) in self.outside_ns:
                self.threads[one.claim, one.cpu].add(one.tid)
        return new

    def ended(self, claims: ClaimSet, evidence: Evidence) -> None:
        """Take the rest of a window that has ended, and the system tasks that ran on exclusive CPUs in it.

        With policy ``strict-isolation`` these are violations, which verdicts name.
        """
        self.look(evidence)
        if claims.policy is not ExclusivePolicy.K8S:
            return
        owners = {
            cpu: claim.name
            for claim in claims.claims
            if claim.cpus is not None and claim.cpus <= claims.exclusive_cpus
            for cpu in claim.cpus
        }
        for row in evidence.intruders:
            if row.cpu in owners and row.owner is OwnerClass.SYSTEM:
                self.visitors_ns[row.cpu, owners[row.cpu]][row.comm] += row.total_ns

    def lines(self) -> tuple[str, ...]:
        """Return the lines, and begin anew: ``be/main: 41 threads on CPU 1, 12 ms outside its CPUs``."""
        found = []
        for place, ns in sorted(self.outside_ns.items()):
            claim, cpu = place
            threads = len(self.threads.get(place, ()))
            who = count(threads, "thread") if threads else count(self.switches[place], "switch", "switches")
            found.append(f"{claim}: {who} on CPU {cpu}, {ns / 1e6:.3g} ms outside its CPUs")
        for (cpu, owner), tasks in sorted(self.visitors_ns.items()):
            if tasks.total() < FLOOR_NS:
                continue
            ranked = sorted(tasks.items(), key=lambda entry: (-entry[1], entry[0]))
            named = ", ".join(f"{comm} {ns / 1e6:.3g} ms" for comm, ns in ranked[:TOP])
            more = f" and {len(ranked) - TOP} more" if len(ranked) > TOP else ""
            found.append(f"{owner}: system tasks on its CPU {cpu}: {named}{more}")
        for sums in (self.outside_ns, self.switches, self.threads, self.visitors_ns):
            sums.clear()
        return tuple(found)
