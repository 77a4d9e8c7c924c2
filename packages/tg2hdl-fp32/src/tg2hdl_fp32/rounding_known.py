"""The rounder for operations that know early whether a result is special or out of range.

Special results go through the adder as constants, so that nothing follows its carry chain.
"""

__all__ = ["choose_special", "round_chosen"]

from amaranth.hdl import Cat, Const, Mux, Value

from .format import Format
from .pipeline import Pipeline
from .rounding import goes_to_infinity, rounds_away
from .timing import add_delay, lut_delay


def choose_special(
    p: Pipeline,
    format: Format,
    *,
    sign: Value,
    nan: Value,
    inf: Value,
    zero: Value,
    over: Value,
    flush: Value | None = None,
    saturate: bool = False,
) -> None:
    """Select the replacement of the rounded number, if any; at :func:`round_chosen` or any stage before.

    Parameters
    ----------
    sign : Value
        Sign of the result.
    nan, inf, zero : Value
        The result is the canonical NaN, an infinity or a zero; `nan` wins over `inf`, that over `zero`.
        An operand class, not an overflow.
    over : Value
        The exponent is beyond that of every finite number, whatever rounding does.
    flush : Value, optional
        The result is tiny and becomes zero.
    saturate : bool
        Overflow gives the largest finite number in every rounding mode.
    """
    away = Const(0) if saturate else goes_to_infinity(p.rm, sign)
    exact = p.wire(nan | inf | zero)
    overflowed = p.wire(over & ~exact)
    infinite = p.wire(~nan & (inf | overflowed & away))
    # Bits that are the same in every special pattern are one signal.
    patterns = (format.nan, format.nan if format.finite else format.infinity, format.max_finite)
    choices = nan, infinite, p.wire(overflowed & ~away)
    columns: dict[tuple[int, ...], str] = {}
    for k in range(format.width - 1):
        column = tuple(pattern >> k & 1 for pattern in patterns)
        if column not in columns:
            columns[column] = f"special_{len(columns)}"
            ones = [choice for choice, bit in zip(choices, column, strict=True) if bit]
            p[columns[column]] = Cat(ones).any() if ones else Const(0, 1)
    p.special_sign = sign & ~nan & ~(infinite if format.finite else Const(0))
    p.special_pick = exact | overflowed | (Const(0) if flush is None else flush)
    p.special_over = overflowed
    p.special_exact = exact
    p.special_flush = Const(0, 1) if flush is None else flush & ~exact


def _special_pattern(p: Pipeline, format: Format) -> Value:
    patterns = (format.nan, format.nan if format.finite else format.infinity, format.max_finite)
    columns: dict[tuple[int, ...], str] = {}
    bits = []
    for k in range(format.width - 1):
        column = tuple(pattern >> k & 1 for pattern in patterns)
        bits.append(p[columns.setdefault(column, f"special_{len(columns)}")])
    return Cat(bits)


def round_chosen(
    p: Pipeline,
    format: Format,
    *,
    field: Value,
    significand: Value,
    guard: Value,
    sticky: Value,
    carry: Value | None = None,
    invalid: Value | None = None,
    flags: bool = False,
    saturate: bool = False,
) -> None:
    """Round and set ``p.result`` (and ``p.flags``); adds one possible cut, or none when nothing is ever rounded.

    Parameters
    ----------
    field : Value
        Exponent field that belongs to the significand with its hidden bit set.
    significand : Value
        Bits that are kept, hidden bit on top; without it the number is subnormal.
    guard, sticky : Value
        First dropped bit, and whether any bit below it is set.
    carry : Value, optional
        One is added to the significand, on top of the increment of rounding.
    invalid : Value, optional
        Flag that the operation raises.
    flags : bool
        Set ``p.flags``.
    saturate : bool
        As in :func:`choose_special`.
    """
    sign, pick = p.special_sign, p.special_pick
    hidden = significand[-1]
    body = p.wire(Cat(significand[:-1], Mux(hidden, field, 0)))
    up = rounds_away(p.rm, sign, significand[0], guard, sticky)
    if carry is not None:
        up = up | carry
    away = Const(0) if saturate else goes_to_infinity(p.rm, sign)
    late: Value = Const(0)
    if format.finite:
        # All ones is NaN in these formats; rounding must not wrap around.
        beyond = p.wire(body.all() & ~pick)
        late = beyond
        body = Cat(body[0] & ~(beyond & ~away), body[1:])
        up = up & ~beyond
    if saturate or carry is not None:
        # A number that does not round to infinity must not carry into it.
        limit = p.wire((body == format.max_finite) & up & ~away & ~pick)
        late = late | limit
        up = up & ~limit
    p.round_body = Mux(pick, _special_pattern(p, format), body)
    p.round_up = up & ~pick
    p.round_inexact = (guard | sticky) & ~p.special_exact
    p.round_tiny = ~hidden & ~p.special_exact & ~p.special_over
    p.round_over = p.special_over | late
    p.round_invalid = Const(0, 1) if invalid is None else invalid
    p.delay(lut_delay(2))
    if not all(isinstance(Value.cast(bit), Const) for bit in (guard, sticky)):
        p.cut()
        p.delay(add_delay(format.width - 1))
    rounded = p.wire((p.round_body + p.round_up)[: format.width - 1])
    nan = rounded.all() if format.finite else Const(0)
    p.result = Cat(rounded, p.special_sign & ~nan)
    if flags:
        _set_flags(p, format, rounded)


def _set_flags(p: Pipeline, format: Format, rounded: Value) -> None:
    top: Value = rounded if format.finite else rounded[format.fraction :]
    carried = top.all() & ~p.special_pick
    overflow = p.round_over | carried
    underflow = p.special_flush | p.round_tiny & p.round_inexact
    inexact = p.round_inexact | overflow | p.special_flush
    p.flags = Cat(inexact, underflow, overflow, Const(0, 1), p.round_invalid)
