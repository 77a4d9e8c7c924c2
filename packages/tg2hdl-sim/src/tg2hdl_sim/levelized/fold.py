"""Constants, identities and narrower words for one node."""

from __future__ import annotations

from collections.abc import Callable

from tg2hdl_sim.levelized.nodes import WordNode
from tg2hdl_sim.levelized.operands import (
    CONST,
    Operand,
    bits_of,
    concat,
    constant,
    constant_value,
    part,
    sign_extend,
    width_of,
)

__all__ = ["COMMUTATIVE", "evaluate", "fold", "signed_bits", "unsigned_bits"]

COMMUTATIVE = frozenset(["+", "*", "&", "|", "^", "eq"])


def _signed(value: int, width: int) -> int:
    return value - (1 << width) if width and value >> (width - 1) else value


def _divide(a: int, b: int) -> tuple[int, int]:
    return divmod(a, b) if b else (0, 0)


_FUNCTIONS: dict[str, Callable[..., int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "~": lambda a: ~a,
    "mux": lambda c, a, b: a if c else b,
    "shl": lambda a, b: a << min(b, 64),
    "shr": lambda a, b: a >> b,
    "eq": lambda a, b: a == b,
    "ult": lambda a, b: a < b,
    "ule": lambda a, b: a <= b,
    "udiv": lambda a, b: _divide(a, b)[0],
    "umod": lambda a, b: _divide(a, b)[1],
    "any": lambda a: a != 0,
    "parity": lambda a: a.bit_count() & 1,
}
_SIGNED: dict[str, Callable[..., int]] = {
    "slt": lambda a, b: a < b,
    "sle": lambda a, b: a <= b,
    "sdiv": lambda a, b: _divide(a, b)[0],
    "smod": lambda a, b: _divide(a, b)[1],
}


def evaluate(node: WordNode, values: list[int]) -> int | None:
    """Return the value of a node with constant operands; None when it is not worth it.

    Parameters
    ----------
    node : WordNode
    values : list of int
        Of the operands, as unsigned integers.
    """
    widths = [width_of(operand) for operand in node.ins]
    if node.op in _FUNCTIONS:
        found = _FUNCTIONS[node.op](*values)
    elif node.op in _SIGNED:
        found = _SIGNED[node.op](*map(_signed, values, widths))
    elif node.op == "sar":
        found = _signed(values[0], widths[0]) >> values[1]
    elif node.op == "all":
        found = values[0] == (1 << widths[0]) - 1
    elif node.op == "match":
        found = any(values[0] & mask == value for mask, value in node.data)
    else:
        return None
    return int(found) & ((1 << node.width) - 1)


def unsigned_bits(operand: Operand) -> int:
    """Bits below the leading zeros."""
    total = width_of(operand)
    if operand and operand[-1][0] == CONST:
        _, value, count = operand[-1]
        return total - count + value.bit_length()
    return total


def signed_bits(operand: Operand) -> int:
    """Bits that a sign extension gives the operand from."""
    total = width_of(operand)
    if not operand:
        return 0
    node, value, count = operand[-1]
    if node == CONST:
        if value >> (count - 1):
            inverse = ~value & ((1 << count) - 1)
            return max(1, total - count + inverse.bit_length() + 1)
        return min(total, total - count + value.bit_length() + 1)
    return total + count if count < 0 else total


def _needed(node: WordNode) -> tuple[int, bool]:
    """Low bits that determine the result, and whether the bits above them repeat the top one."""
    ins, op = node.ins, node.op
    if op in ("+", "-", "*", "mux", "&", "|", "^"):
        terms = ins[1:] if op == "mux" else ins
        zero = [unsigned_bits(operand) for operand in terms]
        sign = [signed_bits(operand) for operand in terms]
        if op == "&":
            unsigned, signed = min(zero), max(sign)
        elif op in ("mux", "|", "^"):
            unsigned, signed = max(zero), max(sign)
        elif op == "*":
            unsigned, signed = sum(zero), sum(sign)
        else:
            unsigned, signed = max(zero) + 1, max(sign) + 1
        if op == "-":
            unsigned = node.width
        return (unsigned, False) if unsigned <= signed else (signed, True)
    if op == "shr":
        return unsigned_bits(ins[0]), False
    if op == "sar":
        return signed_bits(ins[0]), True
    return node.width, False


def _narrow(node: WordNode, number: int) -> Operand | None:
    if node.width == 1:
        return None
    bits, signed = _needed(node)
    bits = max(bits, 1)
    if bits >= node.width:
        return None
    width = node.width
    first = 1 if node.op == "mux" else 0
    shift = node.op in ("shr", "sar")
    node.ins = [
        operand if place < first or (shift and place) else part(operand, 0, bits)
        for place, operand in enumerate(node.ins)
    ]
    node.width = bits
    whole = bits_of(number, 0, bits)
    return sign_extend(whole, width) if signed else concat((*whole, *constant(0, width - bits)))


def fold(node: WordNode, number: int) -> Operand | None:
    """Return a simpler value of a node, or None; the node itself may change.

    Operands of equal width stay so. The constant of a commutative operator comes first; other operands keep the order
    of the design, which is the same in all lanes, as node numbers are not.

    Parameters
    ----------
    node : WordNode
    number : int
        Of the node.
    """
    op, ins, width = node.op, node.ins, node.width
    if op == "copy":
        return ins[0]
    values = [constant_value(operand) for operand in ins]
    if all(value is not None for value in values):
        found = evaluate(node, [value for value in values if value is not None])
        if found is not None:
            return constant(found, width)
    if op in COMMUTATIVE and values[1] is not None:
        ins.reverse()
        values.reverse()
    ones = (1 << width) - 1
    if op == "mux":
        selected = _fold_mux(node, values)
        if selected is not None:
            return selected
    elif op in ("&", "|", "^"):
        known, other = (values[0], ins[1]) if values[0] is not None else (values[1], ins[0])
        if ins[0] == ins[1]:
            return constant(0, width) if op == "^" else ins[0]
        if known == 0:
            return constant(0, width) if op == "&" else other
        if known == ones and op != "^":
            return other if op == "&" else constant(ones, width)
        if known == ones:
            node.op, node.ins = "~", [other]
    elif op in ("+", "-"):
        if values[1] == 0:
            return ins[0]
        if values[0] == 0 and op == "+":
            return ins[1]
    elif op == "*":
        for known, other in ((values[0], ins[1]), (values[1], ins[0])):
            if known == 0:
                return constant(0, width)
            if known is not None and known & (known - 1) == 0:
                amount = known.bit_length() - 1
                return concat((*constant(0, amount), *part(other, 0, width - amount)))
    elif op in ("shl", "shr", "sar") and values[1] is not None:
        amount = min(values[1], width)
        if op == "shl":
            return concat((*constant(0, amount), *part(ins[0], 0, width - amount)))
        kept = part(ins[0], amount, width - amount)
        if op == "sar":
            return sign_extend(kept, width) if kept else sign_extend(part(ins[0], width - 1, 1), width)
        return concat((*kept, *constant(0, amount)))
    elif op in ("any", "all", "parity") and width_of(ins[0]) == 1:
        return ins[0]
    elif op in ("eq", "ule", "sle") and ins[0] == ins[1]:
        return constant(1, 1)
    elif op in ("ult", "slt") and ins[0] == ins[1]:
        return constant(0, 1)
    elif op == "eq" and width_of(ins[0]) == 1:
        known, other = (values[0], ins[1]) if values[0] is not None else (values[1], ins[0])
        if known == 1:
            return other
        if known == 0:
            node.op, node.ins = "~", [other]
    elif op == "match":
        if not node.data:
            return constant(0, 1)
        if any(mask == 0 for mask, _ in node.data):
            return constant(1, 1)
        if width_of(ins[0]) == 1:
            wanted = {value for _, value in node.data}
            if len(wanted) == 2:
                return constant(1, 1)
            if wanted == {1}:
                return ins[0]
            node.op, node.data = "~", None
    return _narrow(node, number)


def _fold_mux(node: WordNode, values: list[int | None]) -> Operand | None:
    condition, yes, no = node.ins
    if values[0] is not None:
        return yes if values[0] else no
    if yes == no:
        return yes
    if node.width > 1:
        return None
    _, one, other = values
    if (one, other) == (1, 0):
        return condition
    if (one, other) == (0, 1):
        node.op, node.ins = "~", [condition]
    elif one == 1 or yes == condition:
        node.op, node.ins = "|", [condition, no]
    elif other == 0 or no == condition:
        node.op, node.ins = "&", [condition, yes]
    return None
