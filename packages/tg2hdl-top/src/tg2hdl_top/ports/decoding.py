"""Address decoding of the register map, for buses and for links."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from amaranth import Cat, Module, Signal, Value

from tg2hdl_top.register_map import AddressWindow

__all__ = ["any_of", "element_size", "window_hits"]


def any_of(flags: Iterable[Value]) -> Value:
    """Whether one of some flags is set; 0 without flags."""
    return Cat(*flags).any()


def window_hits(address: Value, windows: Sequence[AddressWindow]) -> Value:
    """A flag for each window: whether an address is in it.

    Parameters
    ----------
    address : Value
    windows : sequence of AddressWindow
        Each spans a power of two, and is aligned to it.
    """
    bits = [window.span.bit_length() - 1 for window in windows]
    return Cat(address[n:] == w.address >> n for n, w in zip(bits, windows, strict=True))


def element_size(m: Module, windows: Sequence[AddressWindow], hit: Value) -> Signal:
    """log2 of the bytes of an element of the buffer whose flag is set.

    Parameters
    ----------
    m : Module
    windows : sequence of AddressWindow
    hit : Value
        A flag for each window.
    """
    size = Signal(range(4))
    for n, window in enumerate(windows):
        with m.If(hit[n]):
            m.d.comb += size.eq(window.element_bytes.bit_length() - 1)
    return size
