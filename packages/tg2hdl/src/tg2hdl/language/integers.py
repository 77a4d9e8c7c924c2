"""A decoder in integers: weights, keys and values of 9 bits, everything else of 16.

On an ECP5 nine bits cost as much as eight: block RAMs are 9, 18 or 36 bits wide, multipliers 18.  Weights have a
scale per row; each other array has one, found by calibration.  Every product fits 31 bits and every rescaling is a
product and a shift, so that independent implementations agree in every bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tg2hdl.language.checkpoint import Checkpoint
from tg2hdl_ir import UnsupportedError

__all__ = ["TOP", "IntegerDecoder", "IntegerLayer", "Rescaling", "quantized"]

Integers = npt.NDArray[np.int16]
_Sum = tuple[int, npt.NDArray[np.float64]]
"""Largest magnitude of integer sums, and what each is worth in the codes that they become."""

TOP = 32767
"""Largest magnitude of 16-bit codes."""

MARGIN = 1.1
"""Room above the peaks of the calibration; none for keys and values, where a bit is worth more than a few that clip."""

EPSILON = 1e-5

MOST_SHIFT = 24
"""Most bits that distances of scores lose, so that half of them added to the largest distance fits 32 bits."""

LOST = 3
"""Most bits that a layer loses so that it has the shifts of the others."""

LOGIT_SHIFT = 4
"""Bits that logits lose, so that they are no wider than the scores of the attention."""


@dataclass(frozen=True)
class Rescaling:
    """``((sum >> drop) * factor + 2**(shift - 1)) >> shift``; the factor may be an array."""

    drop: int
    factor: Integers
    shift: int


@dataclass(frozen=True)
class IntegerLayer:
    """The numbers of a layer.

    Parameters
    ----------
    qkv, out, gate, down : array, (inputs, outputs)
        Codes of the matrices; queries, keys and values are in one, gate and values of the hidden layer too.
    qkv_scale, out_scale, gate_scale, down_scale : Rescaling
        Of their sums, with a factor per output.
    exponent_shift : int
        Bits that distances of scores lose to be exponents of 1/2 in 1/256.
    index_shift : int
        Bits that codes of the gate lose to be indices of the table of the logistic function.
    hidden_shift : int
        Bits that the product of gate and value loses.
    """

    qkv: Integers
    out: Integers
    gate: Integers
    down: Integers
    qkv_scale: Rescaling
    out_scale: Rescaling
    gate_scale: Rescaling
    down_scale: Rescaling
    exponent_shift: int
    index_shift: int
    hidden_shift: int


@dataclass(frozen=True)
class IntegerDecoder:
    """The numbers of a decoding step.

    Parameters
    ----------
    shape : Checkpoint
        For its sizes.
    context : int
        Positions of the cache.
    cache_bits : int
        Of keys and values.
    embedding : array, (vocabulary, dim)
        Codes of the embedding and the classifier.
    embedding_scale : Rescaling
        A factor per token.
    layers : tuple of IntegerLayer
    cosines, sines : array, (context, head / 2)
    squares_drop : int
        Bits that values lose before their squares are summed.
    epsilon : int
        Term that is added to the sum of squares.
    exponential_bits : int
        Bits of the largest weight of the softmax.
    roots : array, (768,)
        ``2**15 / sqrt((256 + i) / 256)``.
    exponentials : array, (256,)
        ``2**exponential_bits / 2**(i / 256)``.
    reciprocals : array, (1024,)
        ``2**25 / (1024 + i)``.
    logistic : array, (1024,)
        Of ``(i - 512) / 64``, times `TOP`.
    final_scale : Rescaling
        Weights of the last norm.
    logit_scale : Rescaling
        A factor per token.
    logit : float
        Logit of code 1.
    """

    shape: Checkpoint
    context: int
    cache_bits: int
    embedding: Integers
    embedding_scale: Rescaling
    layers: tuple[IntegerLayer, ...]
    cosines: Integers
    sines: Integers
    squares_drop: int
    epsilon: int
    exponential_bits: int
    roots: Integers
    exponentials: Integers
    reciprocals: Integers
    logistic: Integers
    final_scale: Rescaling
    logit_scale: Rescaling
    logit: float


def quantized(
    model: Checkpoint, peaks: Mapping[str, float], *, context: int, bits: int = 9, cache_bits: int = 9
) -> IntegerDecoder:
    """Choose the codes of a decoder.

    Parameters
    ----------
    peaks : mapping of str to float
        Largest magnitudes, as `calibrated_peaks` finds them.
    context : int
        Positions of the cache, at most those of the model.
    bits, cache_bits : int, optional
        Of weights, and of keys and values: 2 to 9.

    Raises
    ------
    UnsupportedError
        For sizes whose sums would exceed 32 bits.
    """
    _check(model, context, bits, cache_bits)
    w, peak = model.weights, {name: max(value, 1e-6) for name, value in peaks.items()}
    peak = {name: value if name[0] in "kv" else MARGIN * value for name, value in peak.items()}
    stream, normed = peak["x"] / TOP, math.sqrt(model.dim) / (TOP + 1)
    embedding, rows = _codes(w["emb"], bits)
    bound = int(np.abs(embedding.astype(np.int64)).sum(1).max()) * TOP
    drop = max(0, bound.bit_length() - 17)
    largest, final = float(rows.max()), peak["hf"] / TOP
    angles = np.arange(context)[:, None] / 10000 ** (np.arange(0, model.head, 2) / model.head)
    squares_drop = math.ceil(math.log2(model.dim) / 2)
    exponential_bits = min(15, 32 - cache_bits - (context - 1).bit_length())
    return IntegerDecoder(
        shape=model,
        context=context,
        cache_bits=cache_bits,
        embedding=embedding,
        embedding_scale=_rescaling(2 ** (bits - 1), rows / stream),
        layers=_layers(model, peak, bits, cache_bits),
        cosines=_table(np.cos(angles) * TOP),
        sines=_table(np.sin(angles) * TOP),
        squares_drop=squares_drop,
        epsilon=max(1, round(EPSILON * model.dim / stream**2 / 4**squares_drop)),
        exponential_bits=exponential_bits,
        roots=_table(2**15 / np.sqrt(1 + (np.arange(768) + 0.5) / 256)),
        exponentials=_table((2**exponential_bits - 1) / 2 ** (np.arange(256) / 256)),
        reciprocals=_table(2**25 / (np.arange(1024, 2048) + 0.5)),
        logistic=_table(TOP / (1 + np.exp(-np.arange(-512, 512) / 64))),
        final_scale=_rescaling(TOP, w["rmsf"].astype(np.float64) * (normed / final)),
        logit_scale=Rescaling(drop, _table(rows / largest * 8191), LOGIT_SHIFT),
        logit=final * largest / 8191 * 2.0 ** (drop + LOGIT_SHIFT),
    )


def _check(model: Checkpoint, context: int, bits: int, cache_bits: int) -> None:
    where = "the decoder"
    if not 1 < context <= min(model.context, 2048):
        raise UnsupportedError(
            f"a context of {context} positions", where=where, hint=f"take 2 to {min(model.context, 2048)}"
        )
    for name, value in (("weights", bits), ("keys and values", cache_bits)):
        if not 2 <= value <= 9:
            raise UnsupportedError(f"{name} of {value} bits", where=where, hint="take 2 to 9")
    if max(model.dim, model.hidden) > 256 or model.head > 128:
        raise UnsupportedError(
            f"sums of {max(model.dim, model.hidden)} products, which may exceed 32 bits",
            where=where,
            hint="take a model whose dim and hidden are at most 256",
        )
    if not np.array_equal(model.weights["cls"], model.weights["emb"]):
        raise UnsupportedError(
            "a classifier that is not the embedding", where=where, hint="take a model that shares them"
        )


def _layers(
    model: Checkpoint, peak: Mapping[str, float], bits: int, cache_bits: int
) -> tuple[IntegerLayer, ...]:
    w = model.weights
    stream, normed = peak["x"] / TOP, math.sqrt(model.dim) / (TOP + 1)
    unit = 2.0 ** (24 - cache_bits) * math.log2(math.e) / math.sqrt(model.head)
    parts = [{name: peak[f"{name}.{n}"] / TOP for name in "qkvguf"} for n in range(model.layers)]
    # Scales of queries and gates make exponents and indices of tables shifts, most of them equal in all layers.
    exponent_shifts = _common([_shift(p["q"] * p["k"] * unit) for p in parts], min)
    index_shifts = _common([_shift(p["g"] * 64) for p in parts], min)
    for p, exponent, index in zip(parts, exponent_shifts, index_shifts, strict=True):
        p["q"], p["g"] = 2.0**-exponent / (p["k"] * unit), 2.0**-index / 64
    hidden_shifts = _common([max(0, -_floor_log2(p["g"] * p["u"] / p["f"])) for p in parts], max)
    codes: list[tuple[Integers, Integers, Integers, Integers]] = []
    sums: list[tuple[_Sum, _Sum, _Sum, _Sum]] = []
    for n, p in enumerate(parts):
        heads = np.concatenate([w["wq"][n], w["wk"][n], w["wv"][n]]) * w["rms1"][n]
        hidden = np.concatenate([w["w1"][n], w["w3"][n]]) * w["rms2"][n]
        widths = [len(w[name][n]) for name in ("wq", "wk", "wv")]
        qkv, qkv_sum = _matrix(heads, bits, normed / np.repeat([p["q"], p["k"], p["v"]], widths))
        out, out_sum = _matrix(w["wo"][n], bits, np.array(p["v"] / stream))
        gate, gate_sum = _matrix(hidden, bits, normed / np.repeat([p["g"], p["u"]], model.hidden))
        hidden_scale = p["g"] * p["u"] * 2.0 ** hidden_shifts[n]
        down, down_sum = _matrix(w["w2"][n], bits, np.array(hidden_scale / stream))
        codes.append((qkv, out, gate, down))
        sums.append((qkv_sum, out_sum, gate_sum, down_sum))
    qkvs, outs, gates, downs = (_rescalings(each) for each in zip(*sums, strict=True))
    scales = zip(qkvs, outs, gates, downs, strict=True)
    shifts = zip(exponent_shifts, index_shifts, hidden_shifts, strict=True)
    return tuple(IntegerLayer(*c, *s, *t) for c, s, t in zip(codes, scales, shifts, strict=True))


def _matrix(
    weights: npt.NDArray[np.floating], bits: int, factor: npt.NDArray[np.float64]
) -> tuple[Integers, _Sum]:
    """Codes of ``(outputs, inputs)``, transposed, and their sums."""
    codes, rows = _codes(weights, bits)
    bound = int(np.abs(codes.astype(np.int64)).sum(1).max()) * TOP
    return np.ascontiguousarray(codes.T), (bound, rows * factor)


def _codes(weights: npt.NDArray[np.floating], bits: int) -> tuple[Integers, npt.NDArray[np.float64]]:
    top = 2 ** (bits - 1) - 1
    scale = np.maximum(np.abs(weights).max(1), 1e-12).astype(np.float64) / top
    return np.clip(np.rint(weights / scale[:, None]), -top, top).astype(np.int16), scale


def _rescaling(bound: int, factor: npt.NDArray[np.float64]) -> Rescaling:
    return _rescalings([(bound, factor)])[0]


def _rescalings(sums: Sequence[_Sum]) -> list[Rescaling]:
    """The rescalings of the same sums of each layer, which keep 17 of their bits, or fewer where layers differ.

    Layers with equal drops and shifts differ in tables only, and share hardware.
    """
    drops = _common([max(0, bound.bit_length() - 17) for bound, _ in sums], max)
    shifts = []
    for drop, (bound, factor) in zip(drops, sums, strict=True):
        largest = float(np.abs(factor).max()) * 2.0**drop
        most = 2 ** min(15, 30 - (bound >> drop).bit_length()) - 1
        shifts.append(_floor_log2(most / largest))
        if not 1 <= shifts[-1] <= 30:
            raise UnsupportedError(
                f"a rescaling by {largest:.3g}, which needs more bits than the decoder has",
                where="the decoder",
                hint="calibrate it on other texts",
            )
    return [
        Rescaling(drop, _table(factor * 2.0 ** (drop + shift)), shift)
        for drop, shift, (_, factor) in zip(drops, _common(shifts, min), sums, strict=True)
    ]


def _shift(value: float) -> int:
    """Bits that codes worth so much lose to count whole steps, at most `MOST_SHIFT`."""
    shift = _floor_log2(1 / value)
    if shift < 0:
        raise UnsupportedError(
            f"codes worth {value:.3g} of what the decoder's tables distinguish",
            where="the decoder",
            hint="calibrate it on other texts",
        )
    return min(MOST_SHIFT, shift)


def _floor_log2(value: float) -> int:
    return math.floor(math.log2(value))


def _common(bits: Sequence[int], choose: Callable[[Sequence[int]], int]) -> list[int]:
    """One number of bits for all layers but those which would lose more than `LOST` of them."""
    common = choose(bits)
    return [common if abs(each - common) <= LOST else each for each in bits]


def _table(values: npt.NDArray[np.float64]) -> Integers:
    return np.clip(np.rint(values), -TOP, TOP).astype(np.int16)
