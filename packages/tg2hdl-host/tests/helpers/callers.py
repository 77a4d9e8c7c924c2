"""Callers in several threads."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

__all__ = ["in_threads"]


def in_threads(work: Callable[[int], object], threads: int = 6) -> list[Exception]:
    """Call ``work(k)`` in as many threads; returns the errors."""
    errors = []

    def run(k: int) -> None:
        try:
            work(k)
        except Exception as error:
            errors.append(error)

    running = [Thread(target=run, args=(k,)) for k in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return errors
