"""The programs of the table: each with its result in numpy and the bound that an expert would state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import layers
import numpy as np
from algorithms import (
    biquad,
    embedding_gradient,
    fft,
    histogram,
    kalman,
    resize,
    rms_norm,
    rope,
    scatter_add,
    softmax,
)
from arrays import Both

__all__ = ["PROGRAMS", "Case", "Program"]

Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Case:
    """Options, and the cycles of an expert.

    Parameters
    ----------
    multipliers : int or None
    bound : int
        Least cycles, by the reason in `Program.why`.
    first : int, optional
        Cycles when the program was first measured.
    options : dict
        Other options of `CompileOptions`.
    """

    multipliers: int | None
    bound: int
    first: int | None = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Program:
    """A program of the table.

    Parameters
    ----------
    make : callable
        Returns the function and its reference in numpy.
    inputs : callable
        Arrays, from a generator of random numbers.
    why : str
        The reason for the bounds: `x` stands for the number of multipliers.
    """

    name: str
    make: Callable[[], Both]
    inputs: Callable[[np.random.Generator], Arrays]
    why: str
    cases: tuple[Case, ...]


def _integers(low: int, high: int, *shape: int, dtype: Any = np.int32) -> Callable[..., Arrays]:
    return lambda rng: (rng.integers(low, high, shape).astype(dtype),)


def _normal(*shapes: tuple[int, ...]) -> Callable[..., Arrays]:
    return lambda rng: tuple(rng.normal(size=shape).astype(np.float32) for shape in shapes)


def _indexed(places: int, *shapes: tuple[int, ...]) -> Callable[..., Arrays]:
    def inputs(rng: np.random.Generator) -> Arrays:
        index = rng.integers(0, places, shapes[0]).astype(np.int32)
        return index, *(rng.integers(-99, 100, shape).astype(np.int32) for shape in shapes[1:])

    return inputs


def _covariance(rng: np.random.Generator) -> Arrays:
    a = rng.normal(size=(6, 6))
    arrays = rng.normal(size=(6, 1)), a @ a.T + np.eye(6), rng.normal(size=(1, 1))
    return tuple(array.astype(np.float32) for array in arrays)


_RELAXED = {"float_order": "relaxed"}


def _outside(bits: int, port: str = "axi4") -> dict[str, Any]:
    return {"weights": "external", "on_chip_bits": bits, "memory_port": port, "target": "ecp5"}


def _port_cases(columns: int) -> tuple[Case, ...]:
    words = 203 * columns
    # 12 of 780 cycles are refreshes.
    return (Case(16, words * 780 // 768, None, _outside(20 * 18432)),)


PROGRAMS = [
    Program(
        "cumsum 512",
        lambda: (lambda x: x.cumsum(), lambda x: np.cumsum(x).astype(np.int32)),
        _integers(-99, 100, 512),
        "an element a cycle; with x lanes 512 / x",
        (Case(1, 512, 262_149), Case(16, 32, 16_390)),
    ),
    Program(
        "cummax 256",
        lambda: (lambda x: x.cummax()[0], np.maximum.accumulate),
        _integers(-999, 1000, 256),
        "an element a cycle",
        (Case(1, 256, 65_541),),
    ),
    Program(
        "integral image 16x16",
        lambda: (
            lambda x: x.cumsum(0).cumsum(1),
            lambda x: x.cumsum(0).cumsum(1).astype(np.int32),
        ),
        _integers(-99, 100, 16, 16),
        "two passes of an element a cycle, overlapped one pass",
        (Case(1, 256),),
    ),
    Program(
        "histogram of 512 into 64",
        histogram,
        _integers(0, 64, 512),
        "an element a cycle with forwarding",
        (Case(1, 512, 32_772),),
    ),
    Program(
        "scatter_add of 200 into 50",
        scatter_add,
        _indexed(50, (200,), (200,)),
        "an element a cycle with forwarding",
        (Case(1, 200, 10_005),),
    ),
    Program(
        "gradient of an embedding 48 into 32x16",
        embedding_gradient,
        _indexed(32, (48,), (48, 16)),
        "an element a cycle with forwarding",
        (Case(1, 768),),
    ),
    Program(
        "RoPE 12x64",
        rope,
        _normal((12, 64)),
        "1,536 products / x",
        (Case(1, 1536, 3087), Case(16, 96, 206)),
    ),
    Program(
        "FFT 64",
        fft,
        _normal((64,), (64,)),
        "192 butterflies of 4 products, 768 / x",
        (Case(1, 768),),
    ),
    Program(
        "Kalman 6x6",
        kalman,
        _covariance,
        "564 products / x",
        (Case(1, 564),),
    ),
    Program(
        "squeeze-excite, 1x1",
        layers.squeeze_excite,
        _normal((1, 16, 8, 8)),
        "16,384 products of the convolution and 1,168 others / x; the means before them",
        (Case(16, 1097),),
    ),
    Program(
        "swish, 3x3",
        layers.swish,
        _normal((1, 8, 12, 12)),
        "82,944 products / x, without the 1,152 of the swishes",
        (Case(16, 5184, 10_412),),
    ),
    Program(
        "magnitude, 1x3",
        layers.magnitude,
        _normal((1, 33, 1, 16), (1, 33, 1, 16)),
        "22,176 products and 1,056 of squares / x",
        (Case(16, 1452),),
    ),
    *(
        Program(
            f"GEMV 203x{n} outside",
            layers.gemv(n),
            _normal((1, 203)),
            "a word a cycle of the port, which is refreshed",
            _port_cases(n),
        )
        for n in (160, 158, 157)
    ),
    Program(
        "llama FFN 288-768 from SDRAM",
        layers.feed_forward,
        _normal((1, 288)),
        "two beats of 16 bits a word",
        (Case(16, 2 * 3 * 288 * 768, None, _outside(100 * 18432, "sdram")),),
    ),
    Program(
        "biquad 32",
        biquad,
        _normal((32,)),
        "154 products / x",
        (Case(1, 154),),
    ),
    Program(
        "bilinear 16x16 to 40x40",
        resize,
        _normal((1, 1, 16, 16)),
        "16x40 and 40x40 interpolations of a product, 2,240 / x",
        (Case(1, 2240, 2274), Case(16, 140, 1953)),
    ),
    Program(
        "quantized depthwise 3x3, stride 2",
        layers.quantized_depthwise,
        _integers(-128, 128, 1, 16, 16, 16, dtype=np.int8),
        "9,216 products / x",
        (Case(16, 576),),
    ),
    Program(
        "attention of an image 32x8x8",
        layers.image_attention,
        _normal((1, 32, 8, 8)),
        "3 x 65,536 products of the convolutions and 2 x 131,072 of the scores / x, 4,096 scaled",
        (Case(16, 28_928),),
    ),
    Program(
        "queries, keys, values 32x8x8",
        layers.queries_keys_values,
        _integers(-128, 128, 1, 32, 8, 8, dtype=np.int8),
        "3 x 65,536 products of the convolutions and 131,072 of the scores / x",
        (Case(16, 20_480),),
    ),
    Program(
        "RMSNorm 8x96",
        rms_norm,
        _normal((8, 96)),
        "768 squares and 1,536 products / x; in strict order 96 x 4 cycles of the adder, then the products",
        (Case(16, 480, 542), Case(16, 144, 220, _RELAXED)),
    ),
    Program(
        "softmax 4x777",
        softmax,
        _normal((4, 777)),
        "three passes over 3,108 elements / x, each a row behind the one before; in strict order a sum of 777 waits 4 "
        "cycles for the adder each time",
        (Case(16, 3108, 4135), Case(16, 293, 1817, _RELAXED)),
    ),
    Program(
        "LSTM, 49 steps",
        layers.lstm,
        _normal((49, 10)),
        "49 x 1,664 products / x",
        (Case(16, 5096),),
    ),
    Program(
        "MLP 16-32-10 int8",
        layers.mlp,
        _integers(-128, 128, 1, 16, dtype=np.int8),
        "832 products / x",
        (Case(1, 832), Case(16, 52)),
    ),
    Program(
        "MLP 16-32-10 fp32",
        layers.float_mlp,
        _normal((1, 16)),
        "832 products / x; the last sum of a layer ends in the latency of its adder",
        (Case(1, 832), Case(2, 416), Case(4, 208)),
    ),
    Program(
        "CNN 12x12",
        layers.cnn,
        _integers(-128, 128, 1, 1, 12, 12, dtype=np.int8),
        "57,600 products / x",
        (Case(50, 1152, 1224),),
    ),
    Program(
        "DS-CNN for keywords",
        layers.keywords,
        _integers(-128, 128, 1, 1, 49, 10, dtype=np.int8),
        "2,656,768 products / x",
        (Case(144, 18_450),),
    ),
]
