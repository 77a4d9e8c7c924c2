"""Comparison with a constant and subtraction from one, in LUTs: operators would become carry chains."""

__all__ = ["at_most", "below", "constant_minus"]

from amaranth.hdl import Cat, Const, Value

from .pipeline import Pipeline


def below(value: Value, limit: int) -> Value:
    """Return whether an unsigned value is less than `limit`, which may be anything.

    Parameters
    ----------
    value : Value
        Unsigned.
    limit : int
        Any integer.
    """
    if limit <= 0:
        return Const(0, 1)
    if limit >= 1 << len(value):
        return Const(1, 1)
    less: Value = Const(0, 1)
    for k in range(len(value)):
        less = ~value[k] | less if limit >> k & 1 else ~value[k] & less
    return less


def at_most(value: Value, limit: int) -> Value:
    """Return whether an unsigned value is `limit` or less.

    Parameters
    ----------
    value : Value
        Unsigned.
    limit : int
        Any integer.
    """
    return below(value, limit + 1)


def constant_minus(p: Pipeline, constant: int, value: Value, bits: int) -> Value:
    """Return the lowest `bits` bits of ``constant - value``.

    Parameters
    ----------
    p : Pipeline
    constant : int
    value : Value
        Unsigned; shorter ones are zero-extended.
    bits : int
        Of the result.
    """
    carry: Value = Const(1, 1)
    result = []
    for k in range(bits):
        inverse = ~value[k] if k < len(value) else Const(1, 1)
        if constant >> k & 1:
            result.append(~(inverse ^ carry))
            carry = p.wire(inverse | carry)
        else:
            result.append(inverse ^ carry)
            carry = p.wire(inverse & carry)
    return Cat(result)
