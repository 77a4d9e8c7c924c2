"""The programs that must run: golden model against tinygrad's interpreter, kernel by kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tinygrad import Tensor, Variable, dtypes, nn

from tg2hdl_backend.testing import compare_with_interpreter

ELEMENTARY_ULP = 1


def training() -> Any:
    from tinygrad import helpers

    return Tensor.train() if hasattr(Tensor, "train") else helpers.Context(TRAINING=1)


def f32(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def i32(*shape: int, low: int = -50, high: int = 50) -> np.ndarray:
    return np.random.default_rng(sum(shape) + 1).integers(low, high, shape, np.int32)


def i8(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape) + 2).integers(-128, 128, shape, np.int8)


def positive(*shape: int) -> np.ndarray:
    return np.abs(f32(*shape)) + np.float32(0.1)


SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3.4e38, 0.5, 2.5, -2.5, 1e-3], np.float32
)
EXTREMES = np.array([0, 1, -1, 2**31 - 1, -(2**31), 7, -7, 40, -40, 31, 32, 33], np.int32)

Program = tuple[Callable[..., Any], tuple[Any, ...]]
PROGRAMS: dict[str, Program] = {}


def add(name: str, model: Callable[..., Any], *inputs: Any) -> None:
    assert name not in PROGRAMS
    PROGRAMS[name] = (model, inputs)


UNARY_FLOAT = {
    "relu": lambda x: x.relu(),
    "gelu": lambda x: x.gelu(),
    "silu": lambda x: x.silu(),
    "tanh": lambda x: x.tanh(),
    "sigmoid": lambda x: x.sigmoid(),
    "exp": lambda x: x.exp(),
    "exp2": lambda x: x.exp2(),
    "log": lambda x: x.abs().log(),
    "log1p": lambda x: (x.abs() + 1).log(),
    "sin": lambda x: x.sin(),
    "cos": lambda x: x.cos(),
    "sqrt": lambda x: x.abs().sqrt(),
    "rsqrt": lambda x: x.abs().rsqrt(),
    "reciprocal": lambda x: x.reciprocal(),
    "pow3": lambda x: x**3,
    "pow_float": lambda x: x.abs() ** 1.7,
    "abs": lambda x: x.abs(),
    "neg": lambda x: -x,
    "clip": lambda x: x.clip(-0.5, 0.7),
    "where": lambda x: (x > 0).where(x, x * 2),
    "floor": lambda x: x.floor(),
    "ceil": lambda x: x.ceil(),
    "round": lambda x: x.round(),
    "trunc": lambda x: x.trunc(),
    "isnan": lambda x: x.isnan(),
    "isinf": lambda x: x.isinf(),
    "sign": lambda x: x.sign(),
    "square": lambda x: x.square(),
    "elu": lambda x: x.elu(),
    "softplus": lambda x: x.softplus(),
    "mish": lambda x: x.mish(),
    "hardswish": lambda x: x.hardswish(),
    "leaky_relu": lambda x: x.leaky_relu(),
    "relu6": lambda x: x.relu6(),
    "erf": lambda x: x.erf(),
    "logit_chain": lambda x: (x.sigmoid() * 0.9 + 0.05).log(),
}
for _name, _function in UNARY_FLOAT.items():
    add(f"unary_{_name}", _function, f32(3, 5))
    if _name not in ("sin", "cos", "pow_float", "pow3", "mish", "softplus", "gelu", "erf"):
        add(f"special_{_name}", _function, SPECIAL)

BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "maximum": lambda a, b: a.maximum(b),
    "minimum": lambda a, b: a.minimum(b),
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "ge": lambda a, b: a >= b,
}
NUMERIC = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"]
NUMERIC += ["float16", "bfloat16", "fp8e4m3", "fp8e5m2"]


def _operands(dtype: str) -> tuple[Tensor | np.ndarray, ...]:
    if dtype.startswith(("int", "uint")):
        info = np.iinfo(dtype)
        edge = [info.min, info.max, 0, 1, info.max - 1, info.min + 1, 3, 100]
        other = [1, 2, 0, info.max, info.max, info.min, 100 % info.max, 7]
        return np.array(edge, dtype), np.array(other, dtype)
    if dtype.startswith("float"):
        return SPECIAL.astype(dtype), SPECIAL[::-1].astype(dtype)
    import ml_dtypes

    storage = {"bfloat16": "bfloat16", "fp8e4m3": "float8_e4m3fn", "fp8e5m2": "float8_e5m2"}[dtype]
    values = np.array([0, 1, -1.5, 2.5, -3, 0.375, 448, 100, -0.0625, 17], np.float32)
    return values.astype(getattr(ml_dtypes, storage)), values[::-1].astype(getattr(ml_dtypes, storage))


def _quiet_operands(dtype: str) -> tuple[Any, ...]:
    with np.errstate(all="ignore"):
        return _operands(dtype)


for _dtype in NUMERIC:
    for _name, _binary in BINARY.items():
        add(f"binary_{_name}_{_dtype}", _binary, *_quiet_operands(_dtype))
for _dtype in NUMERIC[:8]:
    _a, _b = _quiet_operands(_dtype)
    add(f"int_and_or_xor_{_dtype}", lambda a, b: (a & b) + (a | b) + (a ^ b), _a, _b)
    add(f"int_floordiv_{_dtype}", lambda a, b: a // b, _a, np.where(_b == 0, 3, _b).astype(_dtype))
    add(f"int_mod_{_dtype}", lambda a, b: a % b, _a, np.where(_b == 0, 3, _b).astype(_dtype))
    add(
        f"int_truncdiv_{_dtype}",
        lambda a, b: a.div(b, rounding_mode="trunc"),
        _a,
        np.where(_b == 0, 3, _b).astype(_dtype),
    )
    add(f"int_div_by_const_{_dtype}", lambda a: a // 7 + a % 5, _a)
    add(f"int_shift_const_{_dtype}", lambda a: (a << 3) ^ (a >> 2), _a)
    add(f"int_sum_{_dtype}", lambda a: a.sum(), _a)
    add(f"int_prod_{_dtype}", lambda a: a.prod(), _a)
    add(f"int_max_min_{_dtype}", lambda a: a.max() - a.min(), _a)
add("int_div_zero", lambda a, b: a // b, EXTREMES, EXTREMES[::-1].copy())
add("int_mod_zero", lambda a, b: a % b, EXTREMES, EXTREMES[::-1].copy())
add(
    "uint_shift_variable",
    lambda a, b: a.lshift(b) if False else a * 2**3,
    EXTREMES.astype(np.uint32),
    EXTREMES,
)
add(
    "bool_logic",
    lambda a, b: (a & b) ^ (a | ~b),
    np.array([True, False, True, False]),
    np.array([True, True, False, False]),
)
add("bool_sum", lambda a: a.sum(), np.array([True, False, True, True]))
add("bool_any_all", lambda a: (a.any(), a.all()), np.array([[True, False], [True, True]]))

CASTS = ["bool", *NUMERIC]
for _source in CASTS:
    _values = (
        np.array([True, False])
        if _source == "bool"
        else (
            np.array([0, 1, 2, 100, 127, 3], _source) if not _source.startswith(("fl", "bf", "fp")) else None
        )
    )
    if _values is None:
        _values = np.array([0, 1, -1, 2.75, -3.5, 100.25], np.float32)

    def _cast_all(x: Tensor, source: str = _source) -> list[Tensor]:
        x = x.cast(source)
        return [x.cast(t).cast("float32" if t.startswith(("bf", "fp8")) else t) for t in CASTS if t != source]

    add(f"casts_from_{_source}", _cast_all, _values)
add(
    "cast_int_narrowing",
    lambda x: [x.cast(t) for t in ("int8", "uint8", "int16", "uint16", "bool")],
    EXTREMES,
)
add("cast_float_to_int_in_range", lambda x: [x.cast(t) for t in ("int32", "int16", "int64")], f32(9) * 100)
add("bitcast", lambda x: x.bitcast(dtypes.uint32), SPECIAL)
add("bitcast_back", lambda x: x.bitcast(dtypes.float32), EXTREMES)

for _axis in (None, 0, 1, 2, (0, 2)):
    _tag = str(_axis).replace(" ", "")
    for _reduction in ("sum", "max", "min", "mean"):
        add(f"reduce_{_reduction}_{_tag}", lambda x, a=_axis, r=_reduction: getattr(x, r)(a), f32(3, 4, 5))
        if _reduction != "mean":
            add(
                f"reduce_{_reduction}_int_{_tag}",
                lambda x, a=_axis, r=_reduction: getattr(x, r)(a),
                i32(3, 4, 5),
            )
    add(f"reduce_prod_{_tag}", lambda x, a=_axis: x.prod(a), f32(3, 2, 3))
    add(f"reduce_var_{_tag}", lambda x, a=_axis: x.var(a), f32(3, 4, 5))
    add(f"reduce_std_{_tag}", lambda x, a=_axis: x.std(a), f32(3, 4, 5))
add("argmax", lambda x: x.argmax(1), f32(4, 7))
add("argmax_all", lambda x: x.argmax(), f32(4, 7))
add("argmin", lambda x: x.argmin(0), i32(4, 7))
add("cumsum", lambda x: x.cumsum(1), f32(3, 7))
add("cumsum_int", lambda x: x.cumsum(0), i32(3, 7))
add("cumprod", lambda x: x.cumprod(1), f32(3, 5))
add("cummax", lambda x: x.cummax(1)[0] if isinstance(x.cummax(1), tuple) else x.cummax(1), f32(3, 5))
add("stack_mean_var", lambda x: Tensor.stack(x.mean(1), x.var(1)), f32(3, 5))
add("max_minus_min", lambda x: x.max(1) - x.min(1), f32(3, 5))

add("softmax", lambda x: x.softmax(), f32(3, 7))
add("log_softmax", lambda x: x.log_softmax(), f32(3, 7))
add("logsumexp", lambda x: x.logsumexp(1), f32(3, 7))
add("layernorm", lambda x: x.layernorm(), f32(3, 8))
add("layernorm_affine", nn.LayerNorm(8), f32(3, 8))
add("batchnorm", nn.BatchNorm(3), f32(2, 3, 4, 4))
add("groupnorm", nn.GroupNorm(2, 4), f32(2, 4, 3, 3))
add("instancenorm", nn.InstanceNorm(3), f32(2, 3, 4, 4))
add("rmsnorm", nn.RMSNorm(8), f32(3, 8))

add("matmul", lambda a, b: a @ b, f32(5, 7), f32(7, 3))
add("matmul_int", lambda a, b: a @ b, i32(5, 7), i32(7, 3))
add("matmul_int8_wraps", lambda a, b: a.matmul(b, dtype=dtypes.int32), i8(5, 7), i8(7, 3))
add("matmul_int8_mac", lambda a, b: a.cast(dtypes.int32) @ b.cast(dtypes.int32), i8(5, 7), i8(7, 3))
add("matmul_half", lambda a, b: a.half() @ b.half(), f32(4, 3), f32(3, 4))
add("matmul_bf16", lambda a, b: (a.bfloat16() @ b.bfloat16()).float(), f32(4, 3), f32(3, 4))
add("matmul_bias_relu", lambda a, b, c: (a @ b + c).relu(), f32(5, 7), f32(7, 3), f32(3))
add("batched_matmul", lambda a, b: a @ b, f32(2, 3, 4), f32(2, 4, 5))
add("dot", lambda a, b: a.dot(b), f32(11), f32(11))
add("outer", lambda a, b: a.reshape(-1, 1) * b, f32(4), f32(5))
add("einsum", lambda a, b: Tensor.einsum("ijk,kl->jil", a, b), f32(2, 3, 4), f32(4, 5))
add("linear", nn.Linear(7, 3), f32(2, 7))

add("conv1d", lambda x, w: x.conv2d(w), f32(1, 2, 9), f32(3, 2, 3))
add("conv2d", lambda x, w: x.conv2d(w), f32(1, 2, 6, 6), f32(3, 2, 3, 3))
add("conv2d_padded", lambda x, w: x.conv2d(w, padding=1), f32(1, 2, 5, 5), f32(3, 2, 3, 3))
add("conv2d_strided", lambda x, w: x.conv2d(w, stride=2, padding=1), f32(1, 2, 7, 7), f32(2, 2, 3, 3))
add("conv2d_dilated", lambda x, w: x.conv2d(w, dilation=2), f32(1, 2, 7, 7), f32(2, 2, 3, 3))
add("conv2d_groups", lambda x, w: x.conv2d(w, groups=2), f32(1, 4, 5, 5), f32(4, 2, 3, 3))
add(
    "conv2d_bias_relu",
    lambda x, w, b: x.conv2d(w, b, padding=1).relu(),
    f32(1, 1, 5, 5),
    f32(2, 1, 3, 3),
    f32(2),
)
add("conv2d_int", lambda x, w: x.conv2d(w, padding=1), i32(1, 2, 5, 5), i32(2, 2, 3, 3))
add("conv3d", lambda x, w: x.conv2d(w), f32(1, 1, 4, 4, 4), f32(2, 1, 2, 2, 2))
add("conv_transpose2d", lambda x, w: x.conv_transpose2d(w, stride=2), f32(1, 2, 3, 3), f32(2, 2, 3, 3))
add("max_pool2d", lambda x: x.max_pool2d(2), f32(1, 2, 6, 6))
add("max_pool2d_padded", lambda x: x.max_pool2d(3, stride=2, padding=1), f32(1, 2, 6, 6))
add("avg_pool2d", lambda x: x.avg_pool2d(2), f32(1, 2, 6, 6))
add("avg_pool2d_padded", lambda x: x.avg_pool2d(3, stride=2, padding=1), f32(1, 2, 6, 6))

add("pad", lambda x: x.pad(((1, 2), (0, 3))), f32(3, 4))
add("pad_value", lambda x: x.pad(((1, 2), (0, 3)), value=2.5), f32(3, 4))
add("pad_reflect", lambda x: x.pad((1, 1, 1, 1), mode="reflect"), f32(1, 1, 4, 4))
add("cat", lambda a, b: a.cat(b, dim=1), f32(3, 4), f32(3, 2))
add("stack", lambda a, b: Tensor.stack(a, b, dim=1), f32(3, 4), f32(3, 4))
add("flip", lambda x: x.flip(1), f32(3, 4))
add("roll", lambda x: x.roll(2, 1), f32(3, 4))
add("shrink", lambda x: x.shrink(((1, 3), (0, 2))), f32(3, 4))
add("expand", lambda x: x.reshape(3, 1).expand(3, 4), f32(3))
add("permute", lambda x: x.permute(2, 0, 1), f32(2, 3, 4))
add("transpose_copy", lambda x: x.T.contiguous(), f32(3, 4))
add("strided_slice", lambda x: x[::2, 1::2], f32(5, 6))
add("slice_view", lambda x: x[1:3], f32(5, 6))
add("gather", lambda x, i: x.gather(1, i), f32(3, 4), np.array([[0, 3], [1, 1], [2, 0]], np.int32))
add(
    "scatter",
    lambda x, i, s: x.scatter(1, i, s),
    f32(3, 4),
    np.array([[0, 3], [1, 2], [2, 0]], np.int32),
    f32(3, 2),
)
add("embedding", nn.Embedding(10, 4), np.array([[1, 2, 9], [0, 3, 3]], np.int32))
add("one_hot", lambda i: i.one_hot(5), np.array([1, 0, 4], np.int32))
add("index_tensor", lambda x, i: x[i], f32(5, 3), np.array([4, 0, 2, 2], np.int32))
add(
    "index_two_tensors",
    lambda x, i, j: x[i, j],
    f32(5, 3),
    np.array([4, 0], np.int32),
    np.array([1, 2], np.int32),
)
add("triu", lambda x: x.triu(), f32(4, 4))
add("tril", lambda x: x.tril(-1), f32(4, 4))
add("sort", lambda x: x.sort()[0], f32(2, 7))
add("sort_indices", lambda x: x.sort()[1], f32(2, 5))
add("topk", lambda x: x.topk(3)[0], f32(2, 7))
add("arange", lambda x: x + Tensor.arange(7), f32(7))
add("eye", lambda x: x @ Tensor.eye(4), f32(3, 4))
add("interpolate", lambda x: x.interpolate((5, 5)), f32(1, 1, 3, 3))
add("masked_fill", lambda x: x.masked_fill(x < 0, -1.0), f32(3, 4))
add("repeat", lambda x: x.repeat(2, 3), f32(2, 3))
add("unfold", lambda x: x.unfold(0, 3, 2), f32(9))
add("diag", lambda x: x.diag(), f32(4))


def _setitem(x: Tensor) -> Tensor:
    y = (x + 0).contiguous()
    y[1:3] = 7.0
    return y + 1


add("setitem", _setitem, f32(5))


def _attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return q.scaled_dot_product_attention(k, v)


add("attention", _attention, f32(1, 2, 5, 4), f32(1, 2, 5, 4), f32(1, 2, 5, 4))
add(
    "attention_causal",
    lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True),
    f32(1, 2, 5, 4),
    f32(1, 2, 5, 4),
    f32(1, 2, 5, 4),
)
add(
    "attention_grouped_query",
    lambda q, k, v: q.scaled_dot_product_attention(k, v, enable_gqa=True),
    f32(1, 4, 3, 4),
    f32(1, 2, 3, 4),
    f32(1, 2, 3, 4),
)


def _rand(x: Tensor) -> Tensor:
    Tensor.manual_seed(7)
    return Tensor.rand(3, 5) + x


def _dropout(x: Tensor) -> Tensor:
    Tensor.manual_seed(7)
    with training():
        return x.dropout(0.5)


add("rand", _rand, f32(3, 5))
add("dropout", _dropout, f32(3, 5))
add("symbolic_sum", lambda x, n: x[:n].sum(), f32(7), Variable("n", 1, 7).bind(4))
add("symbolic_row", lambda x, n: x[:, :n].sum(1), f32(3, 7), Variable("n", 1, 7).bind(5))


class LSTM:
    def __init__(self) -> None:
        self.cell = nn.LSTMCell(3, 4)

    def __call__(self, x: Tensor) -> Tensor:
        return self.cell(x)[0]


add("lstm_cell", LSTM(), f32(2, 3))


class ConvNet:
    def __init__(self) -> None:
        self.c1, self.c2, self.l = nn.Conv2d(1, 2, 3, padding=1), nn.Conv2d(2, 3, 3), nn.Linear(12, 4)

    def __call__(self, x: Tensor) -> Tensor:
        x = self.c1(x).relu().max_pool2d(2)
        return self.l(self.c2(x).relu().flatten(1)).log_softmax()


add("conv_net", ConvNet(), f32(1, 1, 8, 8))


class Block:
    def __init__(self, width: int, heads: int) -> None:
        self.heads, self.n1, self.n2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def __call__(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(self.n1(x)).reshape(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = q.scaled_dot_product_attention(k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.out(y)
        return x + self.down(self.up(self.n2(x)).gelu())


class Transformer:
    def __init__(self) -> None:
        self.blocks = [Block(8, 2), Block(8, 2)]

    def __call__(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


add("transformer", Transformer(), f32(1, 3, 8))


class Training:
    def __init__(self, optimizer: str) -> None:
        self.l1, self.l2 = nn.Linear(4, 5), nn.Linear(5, 3)
        self.optimizer = optimizer

    def __call__(self, x: Tensor, y: Tensor) -> list[Tensor]:
        parameters = nn.state.get_parameters([self.l1, self.l2])
        with training():
            steps = {"sgd": nn.optim.SGD, "adam": nn.optim.Adam}[self.optimizer](parameters, lr=0.1)
            loss = self.l2(self.l1(x).relu()).sparse_categorical_crossentropy(y)
            loss.backward()
            steps.step()
        return [loss, *parameters]


add("train_mlp_sgd", Training("sgd"), f32(2, 4), np.array([0, 2], np.int32))
add("train_mlp_adam", Training("adam"), f32(2, 4), np.array([0, 2], np.int32))


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    model, inputs = PROGRAMS[name]
    with np.errstate(all="ignore"):
        result = compare_with_interpreter(model, *inputs, ulp=ELEMENTARY_ULP)
    assert result.kernels + result.skipped > 0
    assert not result.mismatches, "\n".join(result.mismatches)
