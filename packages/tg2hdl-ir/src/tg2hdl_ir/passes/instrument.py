"""Names of passes and their watchers: every rewrite is marked with its name and one line, and reported when it has run.

A watcher sees a kernel or a program before and after each rewrite.  With ``TG2HDL_VERIFY_EACH=1``, which the tests of
this project set, every kernel is verified after every rewrite, so that a bug is found at the pass that made it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, wraps
from inspect import signature
from typing import Any, Protocol, TypeAlias, TypeVar
from weakref import WeakSet

from tg2hdl_ir.errors import Tg2hdlError
from tg2hdl_ir.nodes import KernelIR
from tg2hdl_ir.program import ProgramIR
from tg2hdl_ir.verifier import verify

__all__ = [
    "PassWatcher",
    "Rewrite",
    "Rewritten",
    "applied",
    "are_watched",
    "ir_pass",
    "made_kernels",
    "pass_of",
    "verify_each",
    "watch_passes",
]

VERIFY_VARIABLE = "TG2HDL_VERIFY_EACH"

F = TypeVar("F", bound=Callable[..., Any])

Rewritten: TypeAlias = KernelIR | tuple[KernelIR, ...] | ProgramIR
"""The result of a rewrite: a program for a program, and for a kernel another one or several that run in order.

They have the same buffers by slot; further ones are between them.
"""


@dataclass(frozen=True)
class Rewrite:
    """A rewrite of kernels or programs that keeps every result.

    Parameters
    ----------
    name : str
    description : str
        One line.
    run : callable
        ``(kernel, ...) -> kernel``, or a tuple with kernels in it, or a list of such tuples, which are candidates for
        the search; or ``(program, ...) -> program``, or a tuple that begins with one.
    term : str
        Name in textbooks, e.g. *loop fission*; empty where there is none.
    exclusive : bool
        See `PassDef`.
    """

    name: str
    description: str
    run: Callable[..., Any]
    term: str = ""
    exclusive: bool = False

    @property
    def scope(self) -> str:
        """Type of its first argument: ``kernel`` or ``program``."""
        return "program" if next(iter(signature(self.run).parameters)) in ("program", "form") else "kernel"

    @cached_property
    def needs(self) -> tuple[str, ...]:
        """Its further parameters, which the planner or the search decides."""
        return tuple(signature(self.run).parameters)[1:]

    def given(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Those of some facts, by name, that it needs."""
        return {name: facts[name] for name in self.needs if name in facts}

    def candidates(self, kernel: KernelIR, **facts: Any) -> list[tuple[KernelIR, ...]]:
        """Forms that it makes of a kernel; empty where it does not apply.

        Parameters
        ----------
        facts
            By name; those that it needs are used.
        """
        made = self.run(kernel, **self.given(facts))
        if not isinstance(made, list):
            made = [] if made is None or made is kernel else [made]
        forms = [form if isinstance(form, tuple) else (form,) for form in made]
        return [tuple(part for part in form if isinstance(part, KernelIR)) for form in forms]


class PassWatcher(Protocol):
    """Called after each rewrite with its name, its argument and its result."""

    def __call__(self, name: str, before: KernelIR | ProgramIR, after: Rewritten) -> None:
        """See a rewrite."""


_watchers: ContextVar[tuple[PassWatcher, ...]] = ContextVar("watchers", default=())
_verified: WeakSet[KernelIR] = WeakSet()
"""Kernels without an error: most rewrites change nothing."""


def ir_pass(name: str, description: str = "", *, term: str = "") -> Callable[[F], F]:
    """Mark a function ``(kernel, ...)`` or ``(program, ...)`` as a rewrite, see `Rewrite`: each of its runs is watched.

    Parameters
    ----------
    name, description, term : str
        As of `PassDef`, where the last two may be given instead.
    """

    def mark(function: F) -> F:
        @wraps(function)
        def run(before: Any, *args: Any, **options: Any) -> Any:
            result = function(before, *args, **options)
            for made in _results(before, result):
                applied(name, before, made)
            return result

        run.__dict__["ir_pass"] = Rewrite(name, description, run, term)
        return run  # type: ignore[return-value]

    return mark


def _results(before: KernelIR | ProgramIR, result: Any) -> Iterator[Rewritten]:
    if isinstance(result, list):
        for form in result:
            yield from _results(before, form)
        return
    items = result if isinstance(result, tuple) else (result,)
    if isinstance(before, ProgramIR):
        yield from items[:1]
        return
    kernels = tuple(made for made in items if isinstance(made, KernelIR))
    if kernels:
        yield kernels[0] if len(kernels) == 1 else kernels


def pass_of(function: Callable[..., Any]) -> Rewrite:
    """Return the entry that `ir_pass` has made of a function."""
    found: Rewrite = function.__dict__["ir_pass"]
    return found


@contextmanager
def watch_passes(*watchers: PassWatcher) -> Iterator[None]:
    """Call watchers after each rewrite inside the context."""
    token = _watchers.set((*_watchers.get(), *watchers))
    try:
        yield
    finally:
        _watchers.reset(token)


def are_watched() -> bool:
    """Whether a watcher sees each rewrite, so that none may be left out because its result is known."""
    return bool(_watchers.get())


def applied(name: str, before: KernelIR | ProgramIR, after: Rewritten) -> None:
    """Tell the watchers of a rewrite that has run: the one way by which each of them is seen.

    Parameters
    ----------
    name : str
        Of the rewrite.
    before : KernelIR or ProgramIR
        Its argument.
    after : Rewritten
        Its result.
    """
    if os.environ.get(VERIFY_VARIABLE, "") not in ("", "0"):
        verify_each(name, before, after)
    for watcher in _watchers.get():
        watcher(name, before, after)


def made_kernels(
    before: KernelIR | ProgramIR, after: Rewritten
) -> Iterator[tuple[KernelIR | None, KernelIR]]:
    """Each kernel that a rewrite made, after the one that it was made of; that is None where the calls are others.

    Parameters
    ----------
    before : KernelIR or ProgramIR
        Input of the rewrite.
    after : Rewritten
        Its result: kernels if the input is a kernel.
    """
    if isinstance(before, KernelIR):
        kernels = after if isinstance(after, tuple) else (after,)
        yield from ((before, kernel) for kernel in kernels if isinstance(kernel, KernelIR))
        return
    assert isinstance(after, ProgramIR), "a program becomes a program"
    known = {call.kernel for call in before.calls}
    same = len(before.calls) == len(after.calls)
    for number, call in enumerate(after.calls):
        if call.kernel not in known:
            known.add(call.kernel)
            yield before.calls[number].kernel if same else None, call.kernel


def verify_each(name: str, before: KernelIR | ProgramIR, after: Rewritten) -> None:
    """Verify the result of a rewrite, naming it in errors.

    Parameters
    ----------
    name : str
        Of the rewrite.
    before : KernelIR or ProgramIR
        Its argument.
    after : Rewritten
        Its result.
    """
    for _, made in made_kernels(before, after):
        if made in _verified:
            continue
        try:
            _verified.add(verify(made))
        except Tg2hdlError as error:
            error.notes = (*error.notes, f"pass {name} made it of a kernel that it was given")
            raise
