"""Ctrl-C ends a command with one line, wherever it arrives."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

__all__ = ["interrupts_reach_the_command", "stop_quietly"]

_AGAIN = 0.05
"""Seconds until an interrupt that was lost is made again."""


@contextmanager
def interrupts_reach_the_command() -> Iterator[None]:
    """Repeat an interrupt that arrives in a finalizer, where Python would only print it and go on."""
    before = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            timer = threading.Timer(_AGAIN, _thread.interrupt_main)
            timer.daemon = True
            timer.start()
        else:
            before(unraisable)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def stop_quietly() -> None:
    """Print nothing from now on: neither a second interrupt nor the warnings about unfinished designs."""
    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda unraisable: None
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, signal.SIG_IGN)
