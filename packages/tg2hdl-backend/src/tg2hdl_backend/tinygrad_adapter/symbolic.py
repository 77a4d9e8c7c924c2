"""tinygrad's state while a model runs symbolically: of one thread, so that others can use tinygrad meanwhile.

tinygrad has one list of captures, one set of settings and one set of tensors for the process.  Here each thread has a
list of its own, settings are those of the thread that makes them, and the tensors that it has changed are restored.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import get_ident, local
from typing import Any
from weakref import ref

from tinygrad import Tensor
from tinygrad.engine import jit, realize
from tinygrad.helpers import ALLOW_DEVICE_USAGE, ContextVar
from tinygrad.tensor import all_tensors
from tinygrad.uop.ops import UOp

from tg2hdl_ir import InputError

__all__ = ["capture_into", "settings", "tensor_uops", "unchanged_tensors", "without_captures"]


class _Captures(local):
    """tinygrad's list ``capturing``, for each thread."""

    def __init__(self) -> None:
        self._items: list[Any] = []

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, number: int) -> Any:
        return self._items[number]

    def append(self, item: Any) -> None:
        self._items.append(item)

    def clear(self) -> None:
        self._items.clear()


def _captures() -> _Captures:
    """The list, put in the place of tinygrad's in all of its modules."""
    shared, found = realize.capturing, getattr(realize, "capturing", None)
    if isinstance(found, _Captures):
        return found
    own = _Captures()
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("tinygrad") and vars(module).get("capturing") is shared:
            module.capturing = own  # type: ignore[attr-defined]
    return own


assert jit, "the module is loaded, and has the list"
_CAPTURES = _captures()


@contextmanager
def capture_into(found: Any) -> Iterator[None]:
    """Give the kernels that this thread schedules to the method `add_linear` of an object; none of them runs.

    Raises
    ------
    InputError
        Inside of a function that TinyJit captures.
    """
    if len(_CAPTURES):
        raise InputError(
            "a model cannot be compiled while TinyJit captures another one",
            hint="call the compiler outside of the jitted function",
        )
    _CAPTURES.append(found)
    try:
        yield
    finally:
        _CAPTURES.clear()


@contextmanager
def without_captures() -> Iterator[None]:
    """Kernels that this thread schedules are not given to the captures around: they compute a constant of the model."""
    items = [_CAPTURES[n] for n in range(len(_CAPTURES))]
    _CAPTURES.clear()
    try:
        yield
    finally:
        for item in items:
            _CAPTURES.append(item)


class _OfEachThread:
    """An attribute of one object that has a value in each thread which has written it."""

    def __init__(self, name: str) -> None:
        self.name, self._own = name, local()

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        return getattr(self._own, "value", owner.__dict__[self.name])

    def __set__(self, owner: Any, value: Any) -> None:
        self._own.value = value


if type(ALLOW_DEVICE_USAGE) is ContextVar:
    # tinygrad forbids all devices while it compiles a kernel, and two threads that compile would leave them forbidden.
    ALLOW_DEVICE_USAGE.__class__ = type("ContextVar", (ContextVar,), {"value": _OfEachThread("value")})


class _OfThread:
    """An attribute of one object whose value differs in one thread."""

    def __init__(self, name: str, value: Any) -> None:
        self.name, self.value, self._thread = name, value, get_ident()

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        return self.value if get_ident() == self._thread else owner.__dict__[self.name]

    def __set__(self, owner: Any, value: Any) -> None:
        if get_ident() == self._thread:
            self.value = value
        else:
            owner.__dict__[self.name] = value


@contextmanager
def settings(**values: Any) -> Iterator[None]:
    """tinygrad's `Context` for this thread only: others keep the values of their settings."""
    with ExitStack() as stack:
        for name, value in values.items():
            setting: Any = ContextVar._cache[name]
            kind, attribute = type(setting), "_value" if "_value" in vars(setting) else "value"
            own = _OfThread(attribute, getattr(setting, attribute))
            setting.__class__ = type(kind.__name__, (kind,), {attribute: own})
            stack.callback(setattr, setting, "__class__", kind)
            setting.value = value
        yield


class _Noted:
    """An attribute of all tensors that notes which of them this thread writes."""

    def __init__(self, name: str) -> None:
        self.name, self.plain, self._thread = name, Tensor.__dict__[name], get_ident()
        self._written: dict[int, ref[Tensor]] = {}

    def __get__(self, tensor: Tensor | None, owner: type | None = None) -> Any:
        return self if tensor is None else self.plain.__get__(tensor, owner)

    def __set__(self, tensor: Tensor, value: Any) -> None:
        if get_ident() == self._thread:
            self._written[id(tensor)] = ref(tensor)
        self.plain.__set__(tensor, value)

    def restore(self, tensor: Tensor, value: Any) -> None:
        written = self._written.get(id(tensor))
        if written is not None and written() is tensor:
            self.plain.__set__(tensor, value)


@contextmanager
def unchanged_tensors() -> Iterator[dict[int, tuple[Tensor, UOp]]]:
    """Restore the graph and the gradient of the tensors that this thread changes, at the end of the context.

    Yields a mapping by identity, to which the caller adds new tensors with the graph that they are to have.
    """
    gradients = [(t, t.grad) for t, _ in tensor_uops().values()]
    before = tensor_uops()
    created: dict[int, tuple[Tensor, UOp]] = {}
    graph, gradient = _Noted("uop"), _Noted("grad")
    Tensor.uop, Tensor.grad = graph, gradient  # type: ignore[assignment]
    try:
        yield created
    finally:
        Tensor.uop, Tensor.grad = graph.plain, gradient.plain
        for tensor, uop in {**created, **before}.values():
            graph.restore(tensor, uop)
        for tensor, value in gradients:
            gradient.restore(tensor, value)


def tensor_uops() -> dict[int, tuple[Tensor, UOp]]:
    """All tensors with their graphs, by identity."""
    return {id(t): (t, t.uop) for weak in list(all_tensors) if (t := weak()) is not None}
