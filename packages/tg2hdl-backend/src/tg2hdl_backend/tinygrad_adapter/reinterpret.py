"""Access a buffer of one type as elements of another: bits stay, elements are joined or split."""

from __future__ import annotations

from collections.abc import Callable

from tg2hdl_ir import DType, IRBufLoad, IRConst, IROp, IRValue

__all__ = ["load_as", "storage_bits"]


def storage_bits(dtype: DType) -> int:
    """Bits that an element takes in memory; a bool takes a byte."""
    return 8 if dtype.is_bool else dtype.bit_width


def load_as(read: Callable[[IRValue], IRBufLoad], address: IRValue, held: DType, wanted: DType) -> IRValue:
    """Value of type `wanted` at `address`, counted in elements of `wanted`, from a buffer of `held`.

    Parameters
    ----------
    read : callable
        Emits the load of one element of the buffer at an address.
    """
    if held == wanted:
        return read(address)
    have, need = storage_bits(held), storage_bits(wanted)
    if have == need:
        return IROp("bitcast", wanted, (read(address),))
    index = address.dtype
    if have < need:
        whole = DType.from_width(need, False)
        joined: IRValue | None = None
        first = IROp("mul", index, (address, IRConst(need // have, index)))
        for part in range(need // have):
            loaded = read(IROp("add", index, (first, IRConst(part, index))))
            piece = IROp("cast", whole, (_raw(loaded, have),))
            moved = IROp("shl", whole, (piece, IRConst(part * have, whole)))
            joined = moved if joined is None else IROp("or", whole, (joined, moved))
        assert joined is not None
        return joined if wanted == whole else IROp("bitcast", wanted, (joined,))
    parts = IRConst(have // need, index)
    element = _raw(read(IROp("div", index, (address, parts))), have)
    shift = IROp("mul", index, (IROp("mod", index, (address, parts)), IRConst(need, index)))
    piece = IROp("shr", element.dtype, (element, IROp("cast", element.dtype, (shift,))))
    narrow = DType.from_width(need, False)
    return _as(IROp("cast", narrow, (piece,)), wanted)


def _raw(value: IRValue, bits: int) -> IRValue:
    return _as(value, DType.from_width(bits, False))


def _as(value: IRValue, dtype: DType) -> IRValue:
    return value if value.dtype == dtype else IROp("bitcast", dtype, (value,))
