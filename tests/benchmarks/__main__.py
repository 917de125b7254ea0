"""Run the benchmarks: ``python -m tests.benchmarks [NAME...]``, every ``bench_<name>.py`` beside this file by default.

Each is a script with a ``main()`` that prints what it measured, with units. A benchmark measures and asserts nothing
about absolute time; one that cannot measure here raises, the others still run, and the exit code is 1.
"""

from __future__ import annotations

import importlib.util
import sys
import time
import traceback
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent


def available() -> dict[str, Path]:
    """Name -> file of every benchmark, in the order of their names."""
    return {path.stem.removeprefix("bench_"): path for path in sorted(HERE.glob("bench_*.py"))}


def load(path: Path) -> ModuleType:
    """Import a benchmark from its file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all; return the exit code."""
    known = available()
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    broken = []
    for name in names or known:
        print(f"\n== {name}", flush=True)
        began = time.monotonic()
        # A benchmark must not read this runner's own arguments as its own.
        sys.argv = [str(known[name])]
        try:
            outcome = load(known[name]).main()
        except SystemExit as stop:
            outcome = stop.code
        except Exception:
            traceback.print_exc()
            outcome = 1
        if outcome not in (None, 0):
            broken.append(name)
        print(f"-- {name}: {time.monotonic() - began:.1f} s", flush=True)
    if broken:
        print(f"\ndid not finish: {', '.join(broken)}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
