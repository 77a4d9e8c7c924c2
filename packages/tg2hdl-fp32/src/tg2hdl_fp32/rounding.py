"""The rounder that all cores share: significand with guard and sticky bits in, bit pattern out."""

__all__ = ["goes_to_infinity", "round_and_pack", "rounds_away"]

from amaranth.hdl import Cat, Const, Mux, Value

from .format import Format
from .modes import RoundingMode
from .pipeline import Pipeline
from .timing import add_delay, lut_delay


def rounds_away(rm: Value, sign: Value, odd: Value, guard: Value, sticky: Value) -> Value:
    """Return whether the magnitude is rounded up.

    Parameters
    ----------
    rm : Value
        Rounding mode; a constant is folded.
    sign, odd : Value
        Sign of the number and lowest bit that is kept.
    guard, sticky : Value
        First bit that is dropped, and whether any bit below it is set.
    """
    rules = {
        RoundingMode.RNE: guard & (odd | sticky),
        RoundingMode.RTZ: Const(0),
        RoundingMode.RDN: sign & (guard | sticky),
        RoundingMode.RUP: ~sign & (guard | sticky),
        RoundingMode.RMM: guard,
    }
    if isinstance(rm, Const):
        return rules[RoundingMode(rm.value)]
    up: Value = Const(0)
    for mode, rule in rules.items():
        up = up | (rm == mode.value) & rule
    return up


def goes_to_infinity(rm: Value, sign: Value) -> Value:
    """Return whether an overflow of this sign gives the infinity, not the largest finite number.

    Parameters
    ----------
    rm : Value
        Rounding mode as RISC-V encodes it; a constant one folds.
    sign : Value
        Of the result.
    """
    if isinstance(rm, Const):
        if rm.value in (RoundingMode.RNE.value, RoundingMode.RMM.value):
            return Const(1)
        if rm.value == RoundingMode.RTZ.value:
            return Const(0)
        return sign if rm.value == RoundingMode.RDN.value else ~sign
    return (
        (rm == RoundingMode.RNE.value)
        | (rm == RoundingMode.RMM.value)
        | (rm == RoundingMode.RDN.value) & sign
        | (rm == RoundingMode.RUP.value) & ~sign
    )


def _range_check(format: Format, exponent: Value, significand: Value) -> tuple[Value, Value]:
    # Written with ANDs and ORs: a comparison with a constant would become a carry chain.
    low = exponent[: format.exponent]
    high = exponent[format.exponent :]
    negative: Value = Const(0)
    if exponent.shape().signed:
        negative = exponent[-1]
        high = exponent[format.exponent : -1]
    ones = low.all() & significand.all() if format.finite else low.all()
    over = ~negative & (high.any() | ones)
    return over, negative | ~exponent.any()


def round_and_pack(
    p: Pipeline,
    format: Format,
    *,
    sign: Value,
    exponent: Value,
    significand: Value,
    guard: Value,
    sticky: Value,
    nan: Value,
    inf: Value,
    zero: Value,
    over: Value | None = None,
    invalid: Value | None = None,
    divide_by_zero: Value | None = None,
    flags: bool = False,
    subnormals: bool = True,
    saturate: bool = False,
) -> None:
    """Round, pack and set ``p.result`` (and ``p.flags``); adds two possible cuts.

    All arguments belong to the present stage. ``p.rm`` is the rounding mode.

    Parameters
    ----------
    sign : Value
        Sign of the result, of zeros and infinities too.
    exponent : Value
        Biased exponent of the significand's top bit, at least two bits wider than the field and signed, or
        unsigned when it cannot be below 1. It must be 1 when the top bit is 0, and then the result is subnormal;
        a smaller exponent is allowed only without subnormals, where it flushes to zero.
    significand : Value
        Bits that are kept, hidden bit on top.
    guard, sticky : Value
        First dropped bit, and whether any bit below it is set.
    nan, inf, zero : Value
        The result is the canonical NaN, an infinity or a zero; `nan` wins over `inf`, that over `zero`.
        An operand class, not an overflow.
    over : Value, optional
        The exponent, or with it the significand, is beyond the largest finite number, before rounding; found from
        `exponent` when not given.
    invalid, divide_by_zero : Value
        Flags that the operation raises.
    flags : bool
        Set ``p.flags``.
    subnormals : bool
        ``False`` replaces a tiny result by zero.
    saturate : bool
        Overflow gives the largest finite number in every rounding mode.
    """
    hidden = significand[-1]
    beyond, nonpositive = _range_check(format, exponent, significand)
    if over is None:
        over = beyond
    to_infinity = Const(0) if saturate else goes_to_infinity(p.rm, sign)
    flush = Const(0) if subnormals else ~hidden | nonpositive
    field = Mux(hidden, exponent[: format.exponent], 0)
    up = rounds_away(p.rm, sign, significand[0], guard, sticky)

    body = Cat(significand[:-1], field)
    p.round_sign = sign
    if saturate:
        limit = p.wire(up & (body == format.max_finite))
        up, over = up & ~limit, over | limit
    p.round_body = body
    p.round_up = up
    p.round_saturate = over & ~to_infinity
    p.round_inf = over & to_infinity
    p.round_flush = flush
    p.round_nan, p.round_from_inf, p.round_from_zero = nan, inf, zero
    exact = nan | inf | zero
    p.round_inexact = (guard | sticky) & ~exact
    p.round_tiny = ~hidden & ~exact
    p.round_over = over & ~exact
    p.round_invalid = Const(0) if invalid is None else invalid
    p.round_dbz = Const(0) if divide_by_zero is None else divide_by_zero
    p.delay(lut_delay(2))
    p.cut()

    p.rounded = (p.round_body + p.round_up)[: format.width - 1]
    # These select the rounded number or a constant, and settle before the carry chain.
    to_nan = p.round_nan | (p.round_from_inf if format.finite else Const(0))
    overflowed = p.round_inf & ~p.round_from_zero
    saturated = p.round_saturate & ~p.round_from_zero
    p.pack_nan = to_nan | (overflowed & ~p.round_from_inf if format.finite else Const(0))
    p.pack_sign = p.round_sign & ~p.pack_nan
    p.pack_inf = (p.round_from_inf | overflowed) if not format.finite else Const(0)
    p.pack_max = saturated & ~p.round_from_inf & ~to_nan
    p.pack_zero = (p.round_from_zero | p.round_flush) & ~overflowed & ~saturated
    p.delay(add_delay(format.width - 1))
    p.cut()

    body_bits = format.width - 1
    special: Value = Mux(p.pack_max, Const(format.max_finite, body_bits), 0)
    if not format.finite:
        special = Mux(p.pack_inf, Const(format.infinity, body_bits), special)
    special = Mux(p.pack_nan, Const(format.nan, body_bits), special)
    pick = p.pack_nan | p.pack_inf | p.pack_max | p.pack_zero
    # Without infinities a carry into the all-ones pattern is an overflow, and NaN has no sign.
    keep_sign = ~(p.rounded.all() & ~pick) if format.finite else Const(1)
    p.result = Cat(Mux(pick, special, p.rounded), p.pack_sign & keep_sign)
    p.delay(lut_delay(2))
    if flags:
        _set_flags(p, format, pick, subnormals)


def _set_flags(p: Pipeline, format: Format, pick: Value, subnormals: bool) -> None:
    rounded: Value = p.rounded
    top: Value = rounded if format.finite else rounded[format.fraction :]
    carried = top.all() & ~pick
    overflow = p.round_over | carried & p.round_inexact
    tiny = p.round_tiny & (p.round_inexact if subnormals else ~p.round_from_zero)
    inexact = p.round_inexact | overflow | (tiny if not subnormals else Const(0))
    p.flags = Cat(inexact, tiny, overflow, p.round_dbz, p.round_invalid)
