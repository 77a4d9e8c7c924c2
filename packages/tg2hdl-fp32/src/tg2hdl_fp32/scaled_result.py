"""The end of a core whose result is a positive fixed-point number times a power of two, in any format."""

__all__ = ["round_scaled"]

from amaranth.hdl import Cat, Const, Mux, Value

from .format import Format
from .pipeline import Pipeline
from .rounding_known import choose_special, round_chosen
from .shifting import shift_right_sticky
from .timing import add_delay, lut_delay, reduce_delay


def round_scaled(
    p: Pipeline,
    format: Format,
    *,
    value: str,
    exponent: str,
    sign: Value,
    nan: Value,
    inf: Value,
    zero: Value,
    over: Value | None = None,
    subnormals: bool,
    saturate: bool = False,
) -> None:
    """Shift into the subnormal range, round to nearest and set ``p.result``; begins with a cut.

    Parameters
    ----------
    p : Pipeline
    format : Format
        Of the result.
    value : str
        Name of a number in [1, 2), its top bit is 1, of more bits than the significand.
    exponent : str
        Name of its exponent with the bias, a signed value.
    sign, nan, inf, zero : Value
        As for :func:`~tg2hdl_fp32.rounding_known.choose_special`.
    over : Value, optional
        The result is too large, whatever `exponent` is.
    subnormals : bool
        ``False`` replaces a tiny result by zero.
    saturate : bool
        Overflow gives the largest finite number.
    """
    n = format.significand
    p.scaled_sign, p.scaled_nan, p.scaled_inf, p.scaled_zero = sign, nan, inf, zero
    p.scaled_beyond = Const(0, 1) if over is None else over
    p.scaled, p.scaled_exponent = p[value], p[exponent]
    p.scaled_below = (1 - p[exponent]).as_signed()
    p.delay(add_delay(len(p[exponent])))
    p.cut()
    levels = (n + 1).bit_length()
    below, place = p.scaled_below, p.scaled_exponent
    tiny = p.wire(~below[-1] & below[:-1].any())
    far = below[levels:-1].any() if len(below) - 1 > levels else Const(0)
    p.scaled_tiny = tiny
    p.scaled_drop = Cat((bit | far) & tiny for bit in below[:levels])
    high = place[format.exponent : -1].any() if len(place) - 1 > format.exponent else Const(0)
    full = Const(0) if format.finite else place[: format.exponent].all()
    p.scaled_over = ~place[-1] & (high | full) | p.scaled_beyond
    p.scaled_field = place[: format.exponent]
    p.scaled_fallen = Const(0, 1)
    p.delay(lut_delay(3))
    if subnormals:
        for low in reversed(range(0, levels, 2)):
            p.cut()
            amount = p.scaled_drop[low : low + 2]
            shifted, fallen = shift_right_sticky(p, p.scaled, amount, unit=1 << low, sticky=p.scaled_fallen)
            p.scaled, p.scaled_fallen = shifted, fallen
            p.delay(lut_delay(len(amount) + 1))
    p.cut()
    kept, guard = p.scaled[-n:], p.scaled[-n - 1]
    choose_special(
        p,
        format,
        sign=p.scaled_sign,
        nan=p.scaled_nan,
        inf=p.scaled_inf,
        zero=p.scaled_zero,
        over=p.scaled_over,
        # Just below the smallest normal number, rounding reaches it.
        flush=None if subnormals else p.wire(p.scaled_tiny),
        saturate=saturate,
    )
    p.delay(reduce_delay(len(p.scaled) - n))
    round_chosen(
        p,
        format,
        field=Mux(p.scaled_tiny, 1, p.scaled_field),
        significand=kept,
        guard=guard,
        sticky=p.wire(p.scaled[: -n - 1].any() | p.scaled_fallen),
        saturate=saturate,
    )
