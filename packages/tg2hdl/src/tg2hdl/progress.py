"""The present step, on standard error, once a step takes more than two seconds.

It is shown on a terminal, with ``TG2HDL_PROGRESS=1`` also elsewhere as lines, and with ``TG2HDL_PROGRESS=0`` nowhere.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock, Timer
from time import perf_counter
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

__all__ = ["VARIABLE", "shows_progress", "step"]

log = logging.getLogger("tg2hdl")
VARIABLE = "TG2HDL_PROGRESS"
DELAY = 2.0
"""Seconds until a step is shown."""


class _ProgressLine:
    """The shown step: a spinner on a terminal, otherwise a line for each text."""

    def __init__(self, console: Console, text: str, delay: float) -> None:
        self.text = text
        self._console = console
        self._lock = Lock()
        self._spinner: Progress | None = None
        self._is_shown = self._is_over = False
        self._timer = Timer(delay, self._show)
        self._timer.daemon = True
        if delay:
            self._timer.start()
        else:
            self._show()

    def say(self, text: str) -> None:
        """Show another text from now on."""
        with self._lock:
            changed, self.text = text != self.text, text
            if self._spinner is not None:
                self._spinner.update(self._spinner.task_ids[0], description=text)
            elif self._is_shown and changed:
                self._print()

    def _show(self) -> None:
        with self._lock:
            if self._is_over:
                return
            self._is_shown = True
            if not self._console.is_terminal or self._console.is_dumb_terminal:
                self._print()
                return
            columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            self._spinner = Progress(*columns, console=self._console, transient=True)
            self._spinner.add_task(self.text, total=None)
            self._spinner.start()

    def _print(self) -> None:
        self._console.print(f"tg2hdl: {self.text}", highlight=False, markup=False)

    def close(self) -> None:
        """Remove it."""
        self._timer.cancel()
        with self._lock:
            self._is_over = True
            if self._spinner is not None:
                self._spinner.stop()


_SHOWN: ContextVar[_ProgressLine | None] = ContextVar("tg2hdl_progress", default=None)


def _is_wanted(console: Console) -> bool:
    asked = os.environ.get(VARIABLE)
    return console.is_terminal if asked is None else asked not in ("", "0")


@contextmanager
def step(text: str, console: Console | None = None, delay: float = DELAY) -> Iterator[Callable[[str], None]]:
    """Show `text` while the block runs; yields a function that adds a message to it.

    A step within a step is shown as its message.  The logger ``tg2hdl`` gets the text and the seconds afterwards.

    Parameters
    ----------
    text : str
    console : Console, optional
        Standard error unless given.
    delay : float, optional
        Seconds before the text is shown.
    """
    started = perf_counter()
    try:
        with _shown(text, console, delay) as say:
            yield say
    finally:
        log.info("%s: %.2f s", text, perf_counter() - started)


@contextmanager
def _shown(text: str, console: Console | None, delay: float) -> Iterator[Callable[[str], None]]:
    line, is_outer = _SHOWN.get(), False
    if line is None:
        console = console or Console(stderr=True)
        if not _is_wanted(console):
            yield lambda message: None
            return
        line, is_outer = _ProgressLine(console, text, delay), True
    before = line.text
    own = before if is_outer else f"{before}: {text}"
    token = _SHOWN.set(line)
    line.say(own)
    try:
        yield lambda message: line.say(f"{own}: {message}")
    finally:
        _SHOWN.reset(token)
        if is_outer:
            line.close()
        else:
            line.say(before)


_Function = TypeVar("_Function", bound=Callable[..., Any])


def shows_progress(text: str) -> Callable[[_Function], _Function]:
    """Decorator of a method of an object with a `name`: its calls are steps."""

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def run(self: Any, *given: Any, **options: Any) -> Any:
            with step(f"{text} {self.name}"):
                return function(self, *given, **options)

        return run  # type: ignore[return-value]

    return decorate
