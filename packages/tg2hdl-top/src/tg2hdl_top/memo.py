"""Results that are the same throughout a search, which asks for them with several forms and budgets."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from tg2hdl_ir.passes.instrument import are_watched

__all__ = ["remembered", "search_memo"]

_T = TypeVar("_T")
_memo: ContextVar[dict[Hashable, Any] | None] = ContextVar("memo", default=None)


@contextmanager
def search_memo(memo: dict[Hashable, Any] | None = None) -> Iterator[None]:
    """Remember results inside the context, or in that of a search around it.

    Parameters
    ----------
    memo : dict, optional
        Results of earlier searches over the same program, whose options differ only in multipliers; it grows.
    """
    outer = _memo.get() if memo is None else memo
    token = _memo.set({} if outer is None else outer)
    try:
        yield
    finally:
        _memo.reset(token)


def remembered(key: Hashable, make: Callable[[], _T]) -> _T:
    """The result for a key, made once in a search; each time where passes are watched, as watchers must see them.

    Parameters
    ----------
    key : hashable
        Everything that the result depends on; kernels by identity.
    """
    memo = _memo.get()
    if memo is None or are_watched():
        return make()
    if key not in memo:
        memo[key] = make()
    found: _T = memo[key]
    return found
