"""Small programs that between them run every rewrite; kernels as text for rewrites that change none of tinygrad's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tinygrad import Tensor

from tg2hdl_backend import capture
from tg2hdl_ir import ProgramIR, parse_kernel
from tg2hdl_top import CompileOptions, program_of_kernel

__all__ = ["SUBJECTS", "Subject"]


@dataclass(frozen=True)
class Subject:
    """A program and the options it is compiled with; its model is a function, or a kernel as text."""

    name: str
    model: Callable[..., Any] | str
    inputs: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def program(self) -> ProgramIR:
        """The captured program."""
        if isinstance(self.model, str):
            return program_of_kernel(parse_kernel(self.model))
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


def _stencil(x: Tensor) -> Tensor:
    """A sum over a window without padding."""
    rows, columns = x.shape[0] - 2, x.shape[1] - 2
    parts = [x[r : r + rows, c : c + columns] * (r + 2 * c + 1) for r in range(3) for c in range(3)]
    return sum(parts[1:], parts[0])


def _two_calls() -> Callable[[Tensor, Tensor], Tensor]:
    """Equal kernels on two inputs of the host, which cannot be one memory, and equal ones that share a core."""
    weight, layers = Tensor(_i(8, 8)).cast("int32"), _equal_layers()

    def model(x: Tensor, y: Tensor) -> Tensor:
        one, two = ((part.cast("int32") @ weight).contiguous() for part in (x, y))
        return layers(((one + two) >> 8).clip(-128, 127).cast("int8").contiguous())

    return model


IN_PLACE = """kernel in_place
  b0 x: int32[6] output
  b1 w: int32[3]
  0  RANGE i0 < 6 loop
  1    %0 = LOAD int32 b0[i0]
  2    RANGE i1 < 3 loop
  3      %1 = LOAD int32 b1[i1]
  4      %2 = add int32 %0, %1
  5      STORE int32 b0[i0] = %2
  6    END i1
  7  END i0
"""

PREFIX = """kernel prefix
  b0 out: int32[4] output
  b1 x: int32[32]
  r0: int32
  $n: int32 0..8
  0  RANGE i0 < 4 loop
  1    SET r0 = 7:int32
  2    %0 = mul int32 i0, 8:int32
  3    RANGE i1 < $n reduce
  4      %1 = add int32 %0, i1
  5      %2 = LOAD int32 b1[%1]
  6      %3 = GET int32 r0
  7      %4 = add int32 %3, %2
  8      SET r0 = %4
  9    END i1
  10   %5 = GET int32 r0
  11   STORE int32 b0[i0] = %5
  12 END i0
"""

UNSET = """kernel unset
  b0 out: int32[3] output
  b1 x: int32[12]
  r0: int32[3]
  0  RANGE i0 < 4 reduce
  1    RANGE i1 < 3 reduce
  2      %0 = mul int32 i0, 3:int32
  3      %1 = add int32 %0, i1
  4      %2 = LOAD int32 b1[%1]
  5      %3 = GET int32 r0[i1]
  6      %4 = add int32 %3, %2
  7      SET r0[i1] = %4
  8    END i1
  9  END i0
  10 RANGE i2 < 3 loop
  11   %5 = GET int32 r0[i2]
  12   STORE int32 b0[i2] = %5
  13 END i2
"""

FUSED = """kernel fused
  b0 out: int32[4] output
  b1 x: int32[24]
  b2 w: int32[6]
  r0: int32[1]
  0  RANGE i0 < 4 loop
  1    SET r0[0:int32] = 5:int32
  2    RANGE i1 < 6 reduce
  3      %0 = mulacc int32 i0, 6:int32, i1
  4      %1 = LOAD int32 b1[%0]
  5      %2 = LOAD int32 b2[i1]
  6      %3 = GET int32 r0[0:int32]
  7      %4 = mulacc int32 %1, %2, %3
  8      SET r0[0:int32] = %4
  9    END i1
  10   %5 = GET int32 r0[0:int32]
  11   STORE int32 b0[i0] = %5
  12 END i0
"""

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
    Subject(
        "running maximum, lanes", lambda x: x.cummax(1)[0], (_i(3, 9).astype(np.int32),), {"multipliers": 8}
    ),
    Subject("running sum of floats, reversed", lambda x: x.flip(0).cumsum(0).flip(0), (_f(6, 3),)),
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
    Subject("window without padding", _stencil, (_i(20, 10).astype(np.int32),), {"multipliers": 1}),
    Subject("two inputs", _two_calls(), (_i(4, 8), _i(4, 8))),
    Subject("in place", IN_PLACE),
    Subject("sum of some elements", PREFIX),
    Subject("registers that nothing sets", UNSET),
    Subject("fused products, an array of one register", FUSED),
    Subject("loadable", _two_layers(), (_i(4, 8),), {"weights": "loadable"}),
]
