"""Python's collector of reference cycles, paused or rare where many objects are made that stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

__all__ = ["paused_collection", "rare_collection"]

RARE = (200_000, 10, 10)
"""Objects more than before at which the collector looks at the youngest ones; memory stays bounded."""


@contextmanager
def paused_collection() -> Iterator[None]:
    """Pause the collector: it takes a third of the time of elaborating a large design, and finds nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def rare_collection() -> Iterator[None]:
    """Let the collector look seldom: it takes a fifth of the time of compiling a model, and finds next to nothing."""
    with _lock:
        _before.append(gc.get_threshold())
        if _before[0][0]:
            gc.set_threshold(*map(max, _before[0], RARE))
    try:
        yield
    finally:
        with _lock:
            thresholds = _before[0]
            _before.pop()
            if not _before:
                gc.set_threshold(*thresholds)


_lock = Lock()
_before: list[tuple[int, int, int]] = []
"""Thresholds when each of the threads inside of `rare_collection` entered it; those of the first one are restored."""
