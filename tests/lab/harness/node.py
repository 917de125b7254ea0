"""What the tests of guests with systemd ask: a root for containers, claims of a tool, a cgroup's files, a watch."""

from __future__ import annotations

import json
from typing import Any

from tests.json_lines import result_in
from tests.lab.harness.guest import COMMAND, Guest

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
    assert done.text, f"exit code {done.code}: {done.error_text}"
    return result_in(done.text)


def windows_around(guest: Guest, option: str, act: str, codes: tuple[int, ...]) -> list[dict[str, Any]]:
    """Return what one watch found in its first window, in those in which a shell did this, and in one that began after.

    :param codes: the exit codes that the watch may have.
    """
    runs = guest.sh("mktemp -d /tmp/runs-XXXXXX")
    source = f"import os\nopen('{runs}.pid', 'w').write(str(os.getpid()))\n{COMMAND}"
    words = [option, "--window", "4", "--output", runs]
    watch = guest.start_python(source, argv=["pinproof", "watch", *words], timeout_s=400)
    # Windows are saved when they have been judged: by then another may have ended, and one more be open.
    script = f"""
until [ -s {runs}/*/window-000001/result.json ]; do sleep 0.2; done
{{ {act}; }} >&2
later=$(printf %s/window-%06d {runs}/* $(($(ls -d {runs}/*/window-* | wc -l) + 3)))
until [ -s $later/result.json ]; do sleep 0.2; done
for result in {runs}/*/window-*/result.json; do
    case $result in $later*) break;; esac
    cat $result
    echo
done
cat $later/result.json
kill -INT $(cat {runs}.pid)
"""
    # A watch that ends early ends this wait, too.
    read = guest.start(["sh", "-euc", script], timeout_s=300).result(beside=watch).check()
    done = watch.result()
    assert done.code in codes, done.text + done.error_text
    decoder, text, found = json.JSONDecoder(), read.text.strip(), []
    while text:
        one, end = decoder.raw_decode(text)
        found.append(one)
        text = text[end:].strip()
    return found


def before_and_after(guest: Guest, option: str, plant: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what one watch found in its first window, and in one that began after a shell's ``plant``."""
    first, *_, last = windows_around(guest, option, plant, codes=(1,))
    return first, last
