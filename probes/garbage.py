"""When the interpreter looks for garbage in circles: between windows, not while evidence is being made and judged.

Evidence of hundreds of claims is a hundred thousand objects and no circle. The interpreter's own threshold has them
looked through again and again, and a full collection stops all our threads: 15 ms of CPU time, on a loaded host half a
second.

Source: docs.python.org/3.11, module gc (``freeze``, ``set_threshold``).
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterator
from contextlib import contextmanager

NEW_OBJECTS = 400_000
"""So many more objects than before are looked through at once: more than a window of 500 containers makes."""
_YOUNG = 1
"""With the generation before it: what was made since the look before the last."""


@contextmanager
def seldom_sought() -> Iterator[None]:
    """Let what is there by now stay while the block runs, and what is new be looked through by :func:`seek`."""
    thresholds = gc.get_threshold()
    _seek_what_was_imported()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def seek() -> None:
    """Look through what is new: little, where a window's evidence has just been let go of."""
    gc.collect(_YOUNG)


@functools.cache
def _seek_what_was_imported() -> None:
    """Collect once in a process: what is frozen as garbage by a later observer is thawed when that one ends."""
    gc.collect()
