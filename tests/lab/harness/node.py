"""What the tests of guests with systemd ask: a root for containers, claims of a tool, a cgroup's files, a watch."""

from __future__ import annotations

import json
from typing import Any

from tests.lab.harness.guest import Guest

CGROUPS = "/sys/fs/cgroup"
BUSY = "while :; do :; done"
ROOTFS = """
mkdir -p /tmp/rootfs/bin; cp /usr/bin/busybox /tmp/rootfs/bin/
for name in sh sleep; do ln -f /tmp/rootfs/bin/busybox /tmp/rootfs/bin/$name; done
tar -C /tmp/rootfs -cf /tmp/rootfs.tar .
"""
"""A shell script that makes the root of a container, and an archive of it: the guest's own busybox."""


def claims_of(guest: Guest, *words: str) -> dict[str, dict[str, Any]]:
    """Return what ``pinproof claims`` says, by name."""
    done = guest.pinproof("claims", *words, "--json", timeout_s=300).check()
    return {row["name"]: row for row in json.loads(done.text)["claims"]}


def file(guest: Guest, cgroup: str, name: str) -> str:
    """Read a control file."""
    return guest.read(f"{CGROUPS}{cgroup}/{name}").strip()


def watched(guest: Guest, *words: str, code: int | None = None) -> dict[str, Any]:
    """Return what ``pinproof watch`` found in three seconds. :param code: the exit code that it has to have."""
    done = guest.pinproof("watch", *words, "--duration", "3", "--output", "/tmp/runs", "--json", timeout_s=400)
    assert code in (None, done.code), done.error_text
    return dict(json.loads(done.text))
