"""Names of passes and their watchers: every pass of the pipeline is marked with its name and one line.

A watcher sees a kernel before and after each pass.  With ``TG2HDL_VERIFY_EACH=1``, which the tests of this project set,
every kernel is verified after every pass, so that a bug is found at the pass that made it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any, Protocol, TypeVar

from tg2hdl_ir.errors import Tg2hdlError
from tg2hdl_ir.nodes import KernelIR
from tg2hdl_ir.verifier import verify

__all__ = ["IRPass", "PassWatcher", "finish_pass", "ir_pass", "pass_of", "verify_each", "watch_passes"]

VERIFY_VARIABLE = "TG2HDL_VERIFY_EACH"

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class IRPass:
    """A rewrite of kernels that keeps every result.

    Parameters
    ----------
    run : callable
        ``(kernel, ...) -> kernel``, or a tuple with kernels in it.
    """

    name: str
    description: str
    run: Callable[..., Any]


class PassWatcher(Protocol):
    """Called after each pass with its name, the kernel that it was given and each kernel that it made."""

    def __call__(self, name: str, before: KernelIR, after: KernelIR) -> None:
        """See a pass."""


_watchers: ContextVar[tuple[PassWatcher, ...]] = ContextVar("watchers", default=())


def ir_pass(name: str, description: str) -> Callable[[F], F]:
    """Mark a function ``(kernel, ...)`` as a pass."""

    def mark(function: F) -> F:
        @wraps(function)
        def run(kernel: KernelIR, *args: Any, **options: Any) -> Any:
            result = function(kernel, *args, **options)
            for made in result if isinstance(result, tuple) else (result,):
                if isinstance(made, KernelIR):
                    finish_pass(name, kernel, made)
            return result

        run.__dict__["ir_pass"] = IRPass(name, description, run)
        return run  # type: ignore[return-value]

    return mark


def pass_of(function: Callable[..., Any]) -> IRPass:
    """Return the pass that `ir_pass` has made of a function."""
    found: IRPass = function.__dict__["ir_pass"]
    return found


@contextmanager
def watch_passes(*watchers: PassWatcher) -> Iterator[None]:
    """Call watchers after each pass inside the context."""
    token = _watchers.set((*_watchers.get(), *watchers))
    try:
        yield
    finally:
        _watchers.reset(token)


def finish_pass(name: str, before: KernelIR, after: KernelIR) -> None:
    """Tell the watchers of a pass that has run."""
    if os.environ.get(VERIFY_VARIABLE, "") not in ("", "0"):
        verify_each(name, before, after)
    for watcher in _watchers.get():
        watcher(name, before, after)


def verify_each(name: str, before: KernelIR, after: KernelIR) -> None:
    """Verify what a pass has made, naming the pass in errors."""
    try:
        verify(after)
    except Tg2hdlError as error:
        error.notes = (*error.notes, f"pass {name} made it of a kernel that it was given")
        raise
