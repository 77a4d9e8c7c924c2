"""Operators that place elements and compute nothing."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor
from tinygrad.dtype import dtypes

from tg2hdl_tflite.node import TfliteNode, operator
from tg2hdl_tflite.requantize import clipped
from tg2hdl_tflite.value import Bounds, TfliteValue, dtype_of

__all__: list[str] = []

Array = npt.NDArray[Any]


def _keeps_codes(node: TfliteNode, x: TfliteValue, number: Tensor, channels: bool = False) -> TfliteValue:
    """A result with the elements of an operand; its bounds too, for each channel where the last axis stays."""
    bounds = None
    if x.record.is_quantized:
        bounds = x.codes
        if not channels:
            bounds = Bounds(np.array(bounds.ends[0]), np.array(bounds.ends[1]))
    return TfliteValue(node.output, number, None, bounds)


@operator("RESHAPE", "SQUEEZE", "EXPAND_DIMS", version=1)
def reshape(node: TfliteNode) -> Any:
    """The shape is that of the result in the file."""
    x = node.input(0)
    if np.prod(node.output.shape) != np.prod(x.record.shape):
        raise node.refuse(
            f"{x.record.shape} becomes {node.output.shape}", "export the model with fixed shapes"
        )
    if x.array is not None:
        return TfliteValue(node.output, None, x.array.reshape(node.output.shape))
    return _keeps_codes(
        node, x, x.tensor.reshape(node.output.shape), x.record.shape[-1:] == node.output.shape[-1:]
    )


@operator("TRANSPOSE", version=6)
def transpose(node: TfliteNode) -> Any:
    """Axes in another order."""
    x = node.input(0)
    order = node.axes(1, len(x.record.shape))
    if sorted(order) != list(range(len(x.record.shape))):
        raise node.refuse(f"axes in the order {order}", "export the model again")
    if x.array is not None:
        return TfliteValue(node.output, None, x.array.transpose(order))
    return _keeps_codes(node, x, x.tensor.permute(order))


@operator("CONCATENATION", version=4)
def concatenation(node: TfliteNode) -> Any:
    """Codes of one scale."""
    values = node.inputs()
    if node.output.is_quantized:
        node.same_scales(*values)
    axis = node.axis(int(node.option("Axis")), len(node.output.shape))
    tensors = [v.tensor for v in values]
    number = tensors[0].cat(*tensors[1:], dim=axis) if len(tensors) > 1 else tensors[0]
    if node.activation != "NONE":
        raise node.refuse("a fused activation", "apply it in a layer of its own")
    if not node.output.is_quantized:
        return number
    ends = [v.codes.ends for v in values]
    low, high = min(e[0] for e in ends), max(e[1] for e in ends)
    return TfliteValue(node.output, number, None, Bounds(np.array(low), np.array(high)))


@operator("PACK", version=4)
def pack(node: TfliteNode) -> Any:
    """Tensors along a new axis."""
    values = node.inputs()
    if node.output.is_quantized:
        node.same_scales(*values)
    axis = node.axis(int(node.option("Axis")), len(node.output.shape))
    first, *rest = [v.tensor for v in values]
    return first.stack(*rest, dim=axis)


@operator("UNPACK", version=4)
def unpack(node: TfliteNode) -> Any:
    """Slices along an axis, without it."""
    x = node.input(0)
    axis = node.axis(int(node.option("Axis")), len(x.record.shape))
    if len(node.outputs) != x.record.shape[axis]:
        raise node.refuse(f"{len(node.outputs)} results of {x.record.shape[axis]} slices", "export it again")
    sizes = [1] * len(node.outputs)
    return [p.squeeze(axis) for p in _parts(x.tensor, sizes, axis)]


@operator("SPLIT", version=4)
def split(node: TfliteNode) -> Any:
    """Parts of equal size; the axis is input 0."""
    x = node.input(1)
    (axis,) = node.axes(0, len(x.record.shape))
    count, size = len(node.outputs), x.record.shape[axis]
    if not count or size % count:
        raise node.refuse(f"{size} elements in {count} parts", "export the model again")
    return _parts(x.tensor, [size // count] * count, axis)


@operator("SPLIT_V", version=2)
def split_v(node: TfliteNode) -> Any:
    """Parts of given sizes; one may be -1, the rest."""
    x = node.input(0)
    (axis,) = node.axes(2, len(x.record.shape))
    sizes = list(node.integers(1))
    if -1 in sizes:
        sizes[sizes.index(-1)] = x.record.shape[axis] - sum(s for s in sizes if s != -1)
    if sum(sizes) != x.record.shape[axis] or min(sizes) < 0 or len(sizes) != len(node.outputs):
        raise node.refuse(f"parts of {sizes} of {x.record.shape[axis]} elements", "export the model again")
    return _parts(x.tensor, sizes, axis)


def _parts(x: Tensor, sizes: list[int], axis: int) -> list[Tensor]:
    found, start = [], 0
    for size in sizes:
        bounds: list[Any] = [None] * len(x.shape)
        bounds[axis] = (start, start + size)
        found.append(x.shrink(tuple(bounds)))
        start += size
    return found


@operator("SLICE", version=6)
def slice_(node: TfliteNode) -> Any:
    """Begin and size by axis; a size of -1 is all that follows."""
    x = node.input(0)
    shape = x.record.shape
    begin, size = node.integers(1), node.integers(2)
    if len(begin) != len(shape) or len(size) != len(shape):
        raise node.refuse(f"begin {begin} and size {size} of the shape {shape}", "export the model again")
    ends = [n if s == -1 else b + s for b, s, n in zip(begin, size, shape, strict=True)]
    if any(not 0 <= b <= e <= n for b, e, n in zip(begin, ends, shape, strict=True)):
        raise node.refuse(f"begin {begin} and size {size} of the shape {shape}", "export the model again")
    if x.array is not None:
        cut = tuple(slice(b, e) for b, e in zip(begin, ends, strict=True))
        return TfliteValue(node.output, None, x.array[cut])
    return _keeps_codes(node, x, x.tensor.shrink(tuple(zip(begin, ends, strict=True))))


@operator("STRIDED_SLICE", version=8)
def strided_slice(node: TfliteNode) -> Any:
    """Begin, end and step by axis, as numpy's slices with masks."""
    x = node.input(0)
    begin, end, step = (node.integers(n) for n in (1, 2, 3))
    masks = {name: int(node.option(f"{name}Mask")) for name in ("Begin", "End", "ShrinkAxis")}
    if node.option("EllipsisMask") or node.option("NewAxisMask"):
        raise node.refuse("an ellipsis or a new axis in a slice", "give begin and end of each axis")
    if len({len(begin), len(end), len(step)}) > 1 or len(begin) > len(x.record.shape) or 0 in step:
        raise node.refuse(f"begin {begin}, end {end} and step {step}", "export the model again")
    if node.record.options.get("Offset"):
        end = tuple(b + e for b, e in zip(begin, end, strict=True))
    cuts: list[Any] = []
    for axis, (first, last, stride) in enumerate(zip(begin, end, step, strict=True)):
        if masks["ShrinkAxis"] >> axis & 1:
            cuts.append(node.axis_index(first, x.record.shape[axis]))
        else:
            cuts.append(
                slice(
                    None if masks["Begin"] >> axis & 1 else first,
                    None if masks["End"] >> axis & 1 else last,
                    stride,
                )
            )
    if x.array is not None:
        return TfliteValue(node.output, None, np.asarray(x.array[tuple(cuts)]).reshape(node.output.shape))
    return _keeps_codes(node, x, x.tensor[tuple(cuts)].reshape(node.output.shape))


@operator("PAD", "PADV2", "MIRROR_PAD", version=4)
def pad(node: TfliteNode) -> Any:
    """PAD fills with the zero point, PADV2 with a constant's code; MIRROR_PAD reflects."""
    x = node.input(0)
    pads = node.constant(1)
    if pads.shape != (len(x.record.shape), 2) or pads.min(initial=0) < 0:
        raise node.refuse(f"padding {pads.tolist()} of the shape {x.record.shape}", "export the model again")
    sides = tuple((int(a), int(b)) for a, b in pads)
    if node.output.is_quantized:
        node.same_scales(x)
    if node.name == "MIRROR_PAD":
        mode: Any = "symmetric" if node.option("Mode") else "reflect"
        places = [
            np.pad(np.arange(n), side, mode=mode) for n, side in zip(x.record.shape, sides, strict=True)
        ]
        number = x.tensor
        for axis, place in enumerate(places):
            if any(sides[axis]):
                number = _taken(node, number, place, axis)
        return _keeps_codes(node, x, number)
    fill: Any = x.zero if x.record.is_quantized else 0
    if node.name == "PADV2":
        value = node.input(2)
        if node.output.is_quantized:
            node.same_scales(value)
        fill = node.constant(2).reshape(-1)[0].item()
    if x.record.is_quantized and fill:
        # Memories outside of a tensor read as 0, so codes are moved there and back.
        moved = (x.tensor.cast(dtypes.int16) - fill).pad(sides) + fill
        number = moved.cast(dtype_of(node.output.kind))
        bounds = x.codes.with_code(int(fill))
        return TfliteValue(
            node.output, number, None, Bounds(np.array(bounds.ends[0]), np.array(bounds.ends[1]))
        )
    return TfliteValue(
        node.output,
        x.tensor.pad(sides, value=fill),
        None,
        x.codes.with_code(int(fill)) if x.record.is_quantized else None,
    )


@operator("GATHER", version=7)
def gather(node: TfliteNode) -> Any:
    """Slices along an axis, by constant or computed indices."""
    x, index = node.input(0), node.input(1)
    axis = node.axis(int(node.option("Axis")), len(x.record.shape))
    if node.option("BatchDims"):
        raise node.refuse("batch dimensions of GATHER", "gather without them")
    if index.array is not None:
        place = index.array.astype(np.int64)
        if place.size and not (place.min() >= 0 and place.max() < x.record.shape[axis]):
            raise node.refuse(f"an index beyond axis {axis}", "export the model again")
        return _keeps_codes(
            node, x, _taken(node, x.tensor, place.reshape(-1), axis).reshape(node.output.shape)
        )
    if axis:
        raise node.refuse("computed indices of an axis that is not the first", "transpose the table")
    return _keeps_codes(node, x, x.tensor[index.tensor.cast(dtypes.int32)].contiguous())


def _taken(node: TfliteNode, x: Tensor, place: Array, axis: int) -> Tensor:
    """Slices by known indices: a slice where they are evenly spaced."""
    steps = np.diff(place)
    if len(place) and (len(place) == 1 or (np.all(steps == steps[0]) and steps[0] > 0)):
        step = int(steps[0]) if len(steps) else 1
        cut: list[Any] = [slice(None)] * len(x.shape)
        cut[axis] = slice(int(place[0]), int(place[-1]) + 1, step)
        return x[tuple(cut)]
    index: list[Any] = [slice(None)] * len(x.shape)
    index[axis] = node.keep(f"places{crc32(place.tobytes()):08x}", place, dtypes.int32)
    return x[tuple(index)].contiguous()


def _resized(node: TfliteNode) -> tuple[TfliteValue, tuple[int, ...], bool, bool]:
    """An image, its new height and width, and whether corners are aligned and pixels have their place at the centre."""
    x, size = node.input(0), node.integers(1)
    if len(x.record.shape) != 4 or len(size) != 2 or min(size) < 1:
        raise node.refuse(f"an image of shape {x.record.shape} to {size}", "give it four axes")
    return x, size, bool(node.option("AlignCorners")), bool(node.option("HalfPixelCenters"))


@operator("RESIZE_NEAREST_NEIGHBOR", version=4)
def resize_nearest(node: TfliteNode) -> Any:
    """Copies of the nearest element."""
    x, size, align, half = _resized(node)
    number = x.tensor
    for axis, out in ((1, size[0]), (2, size[1])):
        length = x.record.shape[axis]
        ratio = (
            np.float32((length - 1) / (out - 1))
            if align and out > 1
            else np.float32(length) / np.float32(out)
        )
        place = (np.arange(out, dtype=np.float32) + np.float32(0.5 if half else 0)) * ratio
        found = np.floor(place + np.float32(0.5)) if align else np.floor(place)
        index = found.astype(np.int64).clip(0, length - 1)
        if out % length == 0 and np.array_equal(index, np.repeat(np.arange(length), out // length)):
            number = _repeated(number, axis, out // length)
        else:
            number = _taken(node, number, index, axis)
    return _keeps_codes(node, x, number, channels=True)


def _repeated(x: Tensor, axis: int, times: int) -> Tensor:
    """Each element several times."""
    shape = [int(n) for n in x.shape]
    spread = [*shape[: axis + 1], times, *shape[axis + 1 :]]
    return (
        x.reshape(*shape[: axis + 1], 1, *shape[axis + 1 :])
        .expand(spread)
        .reshape(*shape[:axis], shape[axis] * times, *shape[axis + 1 :])
    )


@operator("RESIZE_BILINEAR", version=4)
def resize_bilinear(node: TfliteNode) -> Any:
    """Codes: positions and weights of 10 bits each; halves away from zero of the code."""
    x, size, align, half = _resized(node)
    if not node.is_codes(x):
        return _float_bilinear(node, x, size, align, half)
    node.same_scales(x)
    number = x.tensor.cast(dtypes.int32)
    for axis, out in ((1, size[0]), (2, size[1])):
        length = x.record.shape[axis]
        step = ((length << 10) + out // 2) // out
        if align and out > 1:
            step = (((length - 1) << 10) + (out - 1) // 2) // (out - 1)
        place = np.arange(out) * step + (step // 2 - 512 if half else 0)
        first = np.maximum(place >> 10, 0)
        second = np.minimum((place + 1023) >> 10, length - 1)
        part = place - (first << 10)
        spread = tuple(-1 if a == axis else 1 for a in range(4))
        parts = [
            node.keep(f"weights{axis}_{n}", w.reshape(spread), dtypes.int32)
            for n, w in enumerate((1024 - part, part))
        ]
        number = _taken(node, number, first, axis) * parts[0] + _taken(node, number, second, axis) * parts[1]
    half_away = number + (number > 0).where(1 << 19, -(1 << 19))
    cut = (half_away < 0).where(-((-half_away) >> 20), half_away >> 20)
    return TfliteValue(node.output, clipped(cut, -128, 127, (-256, 256)).cast(dtypes.int8), None, None)


def _float_bilinear(
    node: TfliteNode, x: TfliteValue, size: tuple[int, ...], align: bool, half: bool
) -> Tensor:
    """Along one axis after the other; positions in float32."""
    number = x.tensor
    for axis, out in ((1, size[0]), (2, size[1])):
        length = x.record.shape[axis]
        ratio = np.float32(length) / np.float32(out)
        if align and out > 1:
            ratio = np.float32(length - 1) / np.float32(out - 1)
        place = np.arange(out, dtype=np.float32)
        place = (place + np.float32(0.5)) * ratio - np.float32(0.5) if half else place * ratio
        first = np.maximum(np.floor(place), 0).astype(np.int64)
        second = np.minimum(np.ceil(place), length - 1).astype(np.int64)
        part = place - first.astype(np.float32)
        spread = tuple(-1 if a == axis else 1 for a in range(4))
        parts = [
            node.keep(f"weights{axis}_{n}", w.reshape(spread), dtypes.float32)
            for n, w in enumerate((1 - part, part))
        ]
        number = _taken(node, number, first, axis) * parts[0] + _taken(node, number, second, axis) * parts[1]
    return number


@operator("SHAPE", version=1)
def shape_of(node: TfliteNode) -> Any:
    """A constant."""
    return TfliteValue(node.output, None, np.array(node.input(0).record.shape, node.output.numpy))
