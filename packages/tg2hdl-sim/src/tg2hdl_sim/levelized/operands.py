"""Operands: concatenations of bits of nodes and constants, least significant first.

A piece is ``(node, low, count)``.  A positive count takes that many bits from `low` on; a negative one repeats bit
`low`, as a sign extension does, and then the piece before it ends with the same bit.  The node `CONST` stands for a
constant, whose value is `low`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

__all__ = [
    "CONST",
    "Operand",
    "Piece",
    "bits_of",
    "concat",
    "constant",
    "constant_value",
    "insert",
    "part",
    "replace",
    "sign_extend",
    "sources",
    "width_of",
]

CONST = -1
Piece = tuple[int, int, int]
Operand = tuple[Piece, ...]


def constant(value: int, width: int) -> Operand:
    """Return a constant, taken modulo 2**width.

    Parameters
    ----------
    value : int
    width : int
        Bits; 0 gives the empty operand.
    """
    return ((CONST, value & ((1 << width) - 1), width),) if width else ()


def constant_value(operand: Operand) -> int | None:
    """Return the value when all bits are constant."""
    if not operand:
        return 0
    if len(operand) == 1 and operand[0][0] == CONST:
        return operand[0][1]
    return None


def bits_of(node: int, low: int, count: int) -> Operand:
    """Return some bits of a node.

    Parameters
    ----------
    node : int
        Number.
    low : int
        Lowest bit.
    count : int
        Bits; 0 gives the empty operand.
    """
    return ((node, low, count),) if count else ()


def width_of(operand: Operand) -> int:
    """Number of bits."""
    return sum(abs(count) for _, _, count in operand)


def sources(operand: Operand) -> Iterator[int]:
    """Yield the nodes that are read."""
    for node, _, _ in operand:
        if node != CONST:
            yield node


def _last_bit(piece: Piece) -> int:
    return piece[1] + piece[2] - 1 if piece[2] > 0 else piece[1]


def concat(pieces: Iterable[Piece]) -> Operand:
    """Join pieces into the one normal form that each value has."""
    out: list[Piece] = []
    for piece in pieces:
        node, low, count = piece
        if not count:
            continue
        if out and (last := out[-1])[0] == node:
            if node == CONST:
                out[-1] = (CONST, last[1] | low << last[2], last[2] + count)
                continue
            top = _last_bit(last)
            if top == low and (count < 0 or count == 1):
                if last[2] < 0:
                    out[-1] = (node, low, last[2] - abs(count))
                else:
                    out.append((node, low, -abs(count)))
                continue
            if count > 0 and last[2] > 0 and low == top + 1:
                out[-1] = (node, last[1], last[2] + count)
                continue
        if count < 0:
            out.append((node, low, 1))
            if count < -1:
                out.append((node, low, count + 1))
        else:
            out.append(piece)
    return tuple(out)


def part(operand: Operand, low: int, count: int) -> Operand:
    """Return `count` bits from bit `low` on.

    Parameters
    ----------
    operand : Operand
    low : int
        Lowest bit.
    count : int
        Bits.
    """
    if low == 0 and count == width_of(operand):
        return operand
    found: list[Piece] = []
    place, high = 0, low + count
    for node, start, length in operand:
        size = abs(length)
        first, last = max(low, place), min(high, place + size)
        if first < last:
            if node == CONST:
                found.append((CONST, start >> (first - place) & ((1 << (last - first)) - 1), last - first))
            elif length < 0:
                found.append((node, start, first - last))
            else:
                found.append((node, start + first - place, last - first))
        place += size
        if place >= high:
            break
    return concat(found)


def insert(operand: Operand, low: int, value: Operand) -> Operand:
    """Return the operand with the bits from `low` on replaced.

    Parameters
    ----------
    operand : Operand
    low : int
        Lowest bit that is replaced.
    value : Operand
        As many bits are replaced as it has.
    """
    high = low + width_of(value)
    return concat((*part(operand, 0, low), *value, *part(operand, high, width_of(operand) - high)))


def sign_extend(operand: Operand, width: int) -> Operand:
    """Repeat the top bit up to a width.

    Parameters
    ----------
    operand : Operand
    width : int
        Bits of the result; an operand that is wider stays.
    """
    missing = width - width_of(operand)
    if missing <= 0:
        return operand
    if not operand:
        return constant(0, width)
    ((node, low, _),) = part(operand, width_of(operand) - 1, 1)
    if node == CONST:
        return concat((*operand, *constant(-low, missing)))
    return concat((*operand, (node, low, -missing)))


def replace(operand: Operand, values: Callable[[int], Operand | None]) -> Operand:
    """Replace nodes by values.

    Parameters
    ----------
    operand : Operand
    values : callable
        New value of a node, of the same width; None keeps the node.
    """
    found: list[Piece] = []
    changed = False
    for piece in operand:
        node, low, count = piece
        value = None if node == CONST else values(node)
        if value is None:
            found.append(piece)
            continue
        changed = True
        if count > 0:
            found.extend(part(value, low, count))
        else:
            ((source, bit, _),) = part(value, low, 1)
            if source == CONST:
                found.extend(constant(-bit, -count))
            else:
                found.append((source, bit, count))
    return concat(found) if changed else operand
