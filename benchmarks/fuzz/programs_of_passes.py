"""Small programs that between them run every rewrite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tinygrad import Tensor

from tg2hdl_backend import capture
from tg2hdl_ir.program import ProgramIR
from tg2hdl_top import CompileOptions

__all__ = ["SUBJECTS", "Subject"]


@dataclass(frozen=True)
class Subject:
    """A program and the options it is compiled with."""

    name: str
    model: Callable[..., Any]
    inputs: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)

    def program(self) -> ProgramIR:
        """The captured program."""
        return capture(self.model, *self.inputs, name=self.name).program

    def compile_options(self, **more: Any) -> CompileOptions:
        """Its options and further ones."""
        return CompileOptions(**{"multipliers": 4, **self.options, **more})


_RNG = np.random.default_rng(0)


def _f(*shape: int) -> Any:
    return _RNG.standard_normal(shape).astype(np.float32)


def _i(*shape: int) -> Any:
    return _RNG.integers(-128, 128, shape).astype(np.int8)


def _product(weight: Any) -> Callable[[Tensor], Tensor]:
    held = Tensor(weight)
    return lambda x: x.cast("int32") @ held.cast("int32")


def _conv(weight: Any, **options: Any) -> Callable[[Tensor], Tensor]:
    held = Tensor(weight)
    return lambda x: x.conv2d(held, **options)


def _transposed(weight: Any) -> Callable[[Tensor], Tensor]:
    held = Tensor(weight)
    return lambda x: x.conv_transpose2d(held, stride=2, padding=1, output_padding=1)


def _norm(weight: Any, channels: int) -> Callable[[Tensor], Tensor]:
    held = Tensor(weight)
    scale, shift, mean, variance = (Tensor(np.abs(_f(channels)) + np.float32(0.5)) for _ in range(4))

    def model(x: Tensor) -> Tensor:
        return x.conv2d(held, padding=1).batchnorm(scale, shift, mean, variance.rsqrt()).relu()

    return model


def _two_layers() -> Callable[[Tensor], Tensor]:
    first, second = _product(_i(8, 8)), _product(_i(8, 8))
    return lambda x: (second((first(x) >> 6).clip(-128, 127).cast("int8")) >> 6).relu()


def _equal_layers() -> Callable[[Tensor], Tensor]:
    layers = [_product(_i(8, 8)) for _ in range(3)]

    def model(x: Tensor) -> Tensor:
        for layer in layers:
            x = (layer(x) >> 6).clip(-128, 127).cast("int8").contiguous()
        return x

    return model


def _table(rows: int, columns: int) -> Callable[[Tensor], Tensor]:
    held = Tensor(_f(rows, columns))
    return lambda ids: held[ids] * 2.0


def _concatenated() -> Callable[[Tensor], Tensor]:
    one, two = _conv(_f(2, 2, 3, 3), padding=1), _conv(_f(2, 2, 1, 1))
    return lambda x: one(x).cat(two(x), dim=1).relu()


def _linear() -> Callable[[Tensor], Tensor]:
    weight, bias = Tensor(_f(40, 3)), Tensor(_f(3))
    return lambda x: x @ weight + bias


def _sobel() -> Callable[[Tensor], Tensor]:
    weight = Tensor(np.array([[1, 0, -1], [2, 0, -2], [1, 0, -1]], np.int8).reshape(1, 1, 3, 3))
    return lambda x: x.cast("int32").conv2d(weight.cast("int32"), padding=1).abs()


SUBJECTS = [
    Subject("product", _product(_i(12, 8)), (_i(4, 12),)),
    Subject("product of one lane", _product(_i(12, 8)), (_i(4, 12),), {"multipliers": 1}),
    Subject("product of many lanes", _product(_i(12, 8)), (_i(4, 12),), {"multipliers": 16}),
    Subject("two layers", _two_layers(), (_i(4, 8),)),
    Subject("float product", lambda x, y: x @ y, (_f(4, 6), _f(6, 5))),
    Subject("float product, a row", lambda x, y: x @ y, (_f(1, 30), _f(30, 2))),
    Subject("linear layer, relaxed", _linear(), (_f(2, 40),), {"float_order": "relaxed"}),
    Subject("mean, relaxed", lambda x: x.mean(), (_f(200),), {"float_order": "relaxed"}),
    Subject("convolution and normalization", _norm(_f(3, 2, 3, 3), 3), (_f(1, 2, 6, 6),)),
    Subject("folded normalization", _norm(_f(3, 2, 3, 3), 3), (_f(1, 2, 6, 6),), {"fold_batchnorm": True}),
    Subject("depthwise", _conv(_f(4, 1, 3, 3), padding=1, groups=4), (_f(1, 4, 6, 6),)),
    Subject("groups", _conv(_f(4, 2, 3, 3), groups=2), (_f(1, 4, 6, 6),)),
    Subject("strides", _conv(_f(4, 2, 3, 3), stride=2, padding=1), (_f(1, 2, 8, 8),)),
    Subject("transposed", _transposed(_f(2, 3, 3, 3)), (_f(1, 2, 5, 5),)),
    Subject("concatenated", _concatenated(), (_f(1, 2, 6, 6),)),
    Subject("sobel", _sobel(), (_i(1, 1, 8, 8),)),
    Subject("sobel of many lanes", _sobel(), (_i(1, 1, 8, 8),), {"multipliers": 16}),
    Subject("softmax", lambda x: x.softmax(), (_f(3, 9),)),
    Subject("layer norm", lambda x: x.layernorm(), (_f(3, 8),)),
    Subject("maximum", lambda x: x.max(1), (_f(3, 9),)),
    Subject("argmax", lambda x: x.argmax(1), (_f(3, 9),)),
    Subject("pool", lambda x: x.max_pool2d(2), (_i(1, 2, 6, 6),)),
    Subject("padded pool", lambda x: x.max_pool2d(3, stride=2, padding=1), (_f(1, 2, 6, 6),)),
    Subject("running sum", lambda x: x.cumsum(1), (_i(3, 7).astype(np.int32),)),
    Subject("rows of a table", _table(6, 5), (np.array([1, 3, 0], np.int32),)),
    Subject("shifts and division", lambda x: (x // 3) + (x % 5) * 2, (_i(17).astype(np.int32),)),
    Subject("signs", lambda x: (x * -1).relu() + x, (_i(13).astype(np.int32),)),
    Subject("rotated", lambda x: x.reshape(6, 4).permute(1, 0).reshape(3, 8).flip(1) + 1, (_i(24),)),
    Subject("chain of products", lambda x: (x * x * x * 0.5 + x).tanh() * x, (_f(40),)),
    Subject(
        "weights outside",
        _product(_i(48, 64)),
        (_i(2, 48),),
        {"weights": "external", "on_chip_bits": 24_000},
    ),
    Subject("packed", _product(_i(12, 8)), (_i(4, 12),), {"multipliers": 8, "target": "ecp5"}),
    Subject("equal layers", _equal_layers(), (_i(2, 8),), {"schedule": "serial"}),
    Subject("loadable", _two_layers(), (_i(4, 8),), {"weights": "loadable"}),
]
