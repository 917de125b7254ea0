"""An image with one static program, for pods and their sandboxes alike; and docker's archive of it."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import tarfile
from dataclasses import dataclass
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
	if (c < 2 || strcmp(v[1], "stay")) signal(SIGTERM, end);
	if (c > 1 && !strcmp(v[1], "work"))
		for (;; nanosleep(&rest, 0))
			for (clock_t until = clock() + CLOCKS_PER_SEC / 333; clock() < until;) ;
	for (;;) pause();
}
"""


@dataclass(frozen=True)
class Image:
    """What an image is made of: its configuration, and its one layer, a tar file."""

    config: bytes
    layer: bytes

    def archive(self, name: str) -> bytes:
        """Return it in docker's archive format."""
        manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
        files = {"config.json": self.config, "layer.tar": self.layer, "manifest.json": json.dumps(manifest).encode()}
        return _tar({name: (data, 0o644) for name, data in files.items()})


def image(folder: Path) -> Image:
    """Return the image; the program is compiled in this folder."""
    binary = PREBUILT if PREBUILT.exists() else compiled(folder)
    layer = _tar({"sleeper": (binary.read_bytes(), 0o755)})
    config = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine),
        "os": "linux",
        "config": {"Entrypoint": ["/sleeper"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    return Image(json.dumps(config).encode(), layer)


def compiled(folder: Path) -> Path:
    """Compile the program in this folder."""
    source, binary = folder / "sleeper.c", folder / "sleeper"
    source.write_text(SLEEPER)
    subprocess.run(["cc", "-O1", "-static", "-o", str(binary), str(source)], check=True)
    return binary


def _tar(files: dict[str, tuple[bytes, int]]) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for name, (data, mode) in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), mode
            archive.addfile(member, io.BytesIO(data))
    return whole.getvalue()
