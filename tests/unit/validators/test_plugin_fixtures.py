"""The names of the plugin's fixtures: they live in one room with those of every other plugin."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
PLUGINS = ("-p", "validators.plugin", "-p", "no:cacheprovider")
CHECK = """
import pytest

@pytest.fixture(scope="session")
def host():
    return "theirs"

def test_both(host, request):
    assert host == "theirs"
    for name in ("sandbox", "observe", "probes"):
        with pytest.raises(pytest.FixtureLookupError):
            request.getfixturevalue(name)
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest with our plugin and no other."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", str(folder), *PLUGINS, *arguments],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(PROJECT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_every_fixture_is_named_pinproof(tmp_path: Path) -> None:
    """pytest's own list of what the plugin defines."""
    lines = run(tmp_path, "--fixtures", "-q").stdout.splitlines()
    ours = {line.split()[0] for line in lines if "validators/plugin.py:" in line}

    assert ours == {"pinproof_host", "pinproof_observe", "pinproof_probes", "pinproof_sandbox"}


def test_a_host_of_another_plugin_stays(tmp_path: Path) -> None:
    """Beside testinfra, which has a ``host``: it is theirs, and the old names are gone."""
    (tmp_path / "test_mine.py").write_text(CHECK)
    done = run(tmp_path, "test_mine.py")

    assert done.returncode == 0, done.stdout + done.stderr
