"""What the tests of rule ``mems`` build: pages and readings of them."""

from __future__ import annotations

from toolkit.model.placement import PageKind, PageReading, PageUse


def page(kind: PageKind, node: int, size: int = 4096) -> PageUse:
    return PageUse(claim="db", kind=kind, node=node, total_bytes=size, pid=7, comm="db", process_bytes=size)


def reading(*pages: PageUse, unread: int = 0) -> PageReading:
    return PageReading(claim="db", processes=1, unread=unread, pages=pages)


GOOD = reading(page(PageKind.ANON, 1), page(PageKind.FILE, 0))
