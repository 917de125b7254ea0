"""An image with one static program in docker's archive format, for pods and their sandboxes alike."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import tarfile
from pathlib import Path

PREBUILT = Path(__file__).with_name("sleeper")
"""The program, where it need not be compiled: guests of the lab have no compiler."""
SLEEPER = """
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static void end(int s) { (void)s; _exit(0); }
int main(int c, char **v) {
	struct timespec rest = { 0, 1000000 * (c > 2 ? atoi(v[2]) : 7) };
	if (c > 1 && !strcmp(v[1], "probe")) return 0;
	signal(SIGTERM, end);
	if (c > 1 && !strcmp(v[1], "work"))
		for (;; nanosleep(&rest, 0))
			for (clock_t until = clock() + CLOCKS_PER_SEC / 333; clock() < until;) ;
	for (;;) pause();
}
"""


def archive(name: str, folder: Path) -> bytes:
    """Return the image's archive; the program is compiled in this folder."""
    binary = PREBUILT if PREBUILT.exists() else compiled(folder)
    return _image(name, binary.read_bytes())


def compiled(folder: Path) -> Path:
    """Compile the program in this folder."""
    source, binary = folder / "sleeper.c", folder / "sleeper"
    source.write_text(SLEEPER)
    subprocess.run(["cc", "-O1", "-static", "-o", str(binary), str(source)], check=True)
    return binary


def _image(name: str, binary: bytes) -> bytes:
    """Return an image in docker's archive format with one file in it."""
    layer = _tar({"sleeper": (binary, 0o755)})
    digest = hashlib.sha256(layer).hexdigest()
    config = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine),
        "os": "linux",
        "config": {"Entrypoint": ["/sleeper"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    files = {"config.json": json.dumps(config).encode(), "layer.tar": layer}
    return _tar(
        {name: (data, 0o644) for name, data in {**files, "manifest.json": json.dumps(manifest).encode()}.items()}
    )


def _tar(files: dict[str, tuple[bytes, int]]) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for name, (data, mode) in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), mode
            archive.addfile(member, io.BytesIO(data))
    return whole.getvalue()
