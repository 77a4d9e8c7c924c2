"""Reductions, contractions, convolutions, pooling and movement."""

from __future__ import annotations

import numpy as np
from tinygrad import Tensor, Variable, dtypes, nn

from tg2hdl_backend.testing.registry import add, f32, i8, i32, training

__all__: list[str] = []

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
