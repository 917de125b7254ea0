"""The metrics as a file for node_exporter's textfile collector: for nodes on which no port may be opened.

Source: github.com/prometheus/node_exporter, "Textfile Collector": it reads ``*.prom`` of one directory, and expects
that a file appears at once (rename).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from prometheus_client import generate_latest

from toolkit.disk import write_output
from toolkit.errors import InputError
from toolkit.report.metrics import Judge, Promised, SessionCollector, registered
from toolkit.report.metrics_server import MetricsServer
from toolkit.session.windows.counters import SessionState
from validators.registry import judge

PERIOD_S = 15.0
"""How often the file is written: as often as Prometheus usually reads it."""
SUFFIX = ".prom"


class MetricsFile:
    """Writes the file when the block begins, every :data:`PERIOD_S`, and when it ends: then with the observer down.

    :param complain: called with one line when the file cannot be written any more. Nothing else may hear of it: what
        the file says then grows old, by its own time of the last window.
    :raises InputError: it cannot be written at the beginning, or node_exporter would not read it.
    """

    def __init__(
        self,
        claims: Promised,
        read_state: Callable[[], SessionState],
        path: Path,
        complain: Callable[[str], None],
        judge: Judge = judge,
    ) -> None:
        if path.suffix != SUFFIX:
            raise InputError("--metrics-file", str(path), f"a name that ends in {SUFFIX}: node_exporter reads no other")
        self._path, self._complain = path, complain
        self._collector = SessionCollector(claims, read_state, judge)
        self._registry = registered(self._collector)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="metrics-file", daemon=True)

    def __enter__(self) -> MetricsFile:
        self._write()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._collector.end()
        try:
            self._write()
        except InputError as error:
            self._complain(str(error))

    def _write(self) -> None:
        write_output(self._path, generate_latest(self._registry).decode())

    def _go_on(self) -> None:
        complained = False
        while not self._over.wait(PERIOD_S):
            try:
                self._write()
                complained = False
            except InputError as error:
                if not complained:
                    self._complain(str(error))
                complained = True


@contextmanager
def exported(
    claims: Promised,
    read_state: Callable[[], SessionState],
    *,
    address: str,
    port: int | None,
    file: Path | None,
    complain: Callable[[str], None],
) -> Iterator[None]:
    """Serve the metrics on a port, write them to a file, or both, while the block runs."""
    with ExitStack() as stack:
        if file is not None:
            stack.enter_context(MetricsFile(claims, read_state, file, complain))
        stack.enter_context(MetricsServer(claims, read_state, address, port))
        yield
