"""Threads that take turns: one of them compiles, and one of them is inside of an object that has a state."""

from __future__ import annotations

import functools
from collections.abc import Callable
from threading import RLock
from typing import Any, TypeVar

__all__ = ["COMPILER", "compiles", "in_turn"]

COMPILER = RLock()
"""Held by the thread that compiles: tinygrad and the caches of the planner have one state for the process."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiles(function: _Function) -> _Function:
    """Decorator: callers in other threads wait until the one that compiles has finished."""

    @functools.wraps(function)
    def run(*given: Any, **options: Any) -> Any:
        with COMPILER:
            return function(*given, **options)

    return run  # type: ignore[return-value]


def in_turn(method: _Function) -> _Function:
    """Decorator of a method: callers of the decorated methods of one object wait for each other."""

    @functools.wraps(method)
    def run(self: Any, *given: Any, **options: Any) -> Any:
        with self.__dict__.setdefault("_turn", RLock()):
            return method(self, *given, **options)

    return run  # type: ignore[return-value]
