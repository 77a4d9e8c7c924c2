"""Operands: every pair of special values, then random ones with a bent for trouble."""

__all__ = ["special_patterns", "vectors"]

from typing import Any

import numpy as np
import numpy.typing as npt

from ..format import Format


def special_patterns(format: Format) -> list[int]:
    """Return zeros, limits of the subnormal and normal ranges, ones, ties, infinities and NaNs, of both signs."""
    f = format.fraction
    positive = {
        0,
        1,
        2,
        3,
        (1 << f) - 1,
        1 << (f - 1),
        format.min_normal,
        format.min_normal + 1,
        2 * format.min_normal - 1,
        2 * format.min_normal,
        format.one - 1,
        format.one,
        format.one + 1,
        format.one + (1 << (f - 1)),
        format.one + (1 << f) - 1,
        min(format.one + (f << f), format.max_finite),
        min(format.one + (f + 1 << f), format.max_finite),
        max(format.one - (f + 1 << f), 1),
        format.max_finite - 1,
        format.max_finite,
        format.nan,
    }
    if not format.finite:
        positive |= {format.infinity, format.infinity + 1, format.sign_mask - 1}
    ordered = sorted(p for p in positive if 0 <= p < format.sign_mask)
    return [*ordered, *(p | format.sign_mask for p in ordered)]


def vectors(
    format: Format, arity: int, count: int, *, seed: int = 1, specials: bool = True
) -> tuple[npt.NDArray[Any], ...]:
    """Return `arity` arrays of patterns: all combinations of special values, then `count` random ones.

    Of special values for more than three operands, there are 4,000 random combinations.
    A third of the random operands is near the first one in exponent, a part is subnormal or has long runs of equal
    bits, the rest is uniform.

    Parameters
    ----------
    format : Format
    arity : int
        Operands.
    count : int
        Random operands.
    seed : int, default 1
    specials : bool, default True
        Whether the special values come first.
    """
    rng = np.random.default_rng(seed)
    columns = [_random(format, rng, count) for _ in range(arity)]
    for column in columns[1:]:
        near = rng.random(count) < 0.33
        step = rng.integers(-(format.significand + 2), format.significand + 3, count)
        field = (columns[0] >> format.fraction & ((1 << format.exponent) - 1)).astype(np.int64) + step
        field = np.clip(field, 0, format.max_exponent_field).astype(np.uint64)
        close = column & ~np.uint64(((1 << format.exponent) - 1) << format.fraction) | field << np.uint64(
            format.fraction
        )
        column[near] = close[near]
    if specials:
        patterns = np.array(special_patterns(format), np.uint64)
        grid = rng.choice(patterns, (arity, 4000)) if arity > 3 else np.meshgrid(*[patterns] * arity)
        columns = [np.concatenate([g.ravel(), c]) for g, c in zip(grid, columns, strict=True)]
    return tuple(columns)


def _random(format: Format, rng: np.random.Generator, count: int) -> npt.NDArray[Any]:
    mask = np.uint64((1 << format.width) - 1)
    bits = rng.integers(0, 1 << 64, count, dtype=np.uint64) & mask
    kind = rng.integers(0, 10, count)
    run = (np.uint64(1) << rng.integers(0, format.fraction + 1, count).astype(np.uint64)) - np.uint64(1)
    sign_fraction = np.uint64(format.sign_mask | (format.min_normal - 1))
    bits = np.where(kind == 0, bits & sign_fraction, bits)
    bits = np.where(kind == 1, bits & ~run, bits)
    return np.where(kind == 2, bits | run, bits)
