"""Small kernels of the shapes that tinygrad emits, as text, for tests and benchmarks."""

from __future__ import annotations

from tg2hdl_ir.nodes import KernelIR
from tg2hdl_ir.parser import parse_kernel

__all__ = ["conv3x3", "elementwise", "matmul", "padded_convolution", "padded_sum", "row_max"]


def matmul(m: int, k: int, n: int, dtype: str = "int8", acc: str = "int32") -> KernelIR:
    """``out[m, n] = a[m, k] @ b[k, n]``, multiplied and summed in `acc`.

    Parameters
    ----------
    m, k, n : int
        Elements of each axis.
    dtype : str, default "int8"
        Of both operands.
    acc : str, default "int32"
        Of products, sums and results.
    """
    casts = "" if dtype == acc else f"%4 = cast {acc} %2\n%5 = cast {acc} %3\n"
    left, right = ("%2", "%3") if dtype == acc else ("%4", "%5")
    return parse_kernel(
        f"""kernel matmul
  b0 out: {acc}[{m * n}] output
  b1 a: {dtype}[{m * k}]
  b2 b: {dtype}[{k * n}]
  r0: {acc}
RANGE i0 < {m} loop
RANGE i1 < {n} loop
SET r0 = 0:{acc}
RANGE i2 < {k} reduce
%0 = mul int32 i0, {k}:int32
%1 = add int32 %0, i2
%2 = LOAD {dtype} b1[%1]
%6 = mul int32 i2, {n}:int32
%7 = add int32 %6, i1
%3 = LOAD {dtype} b2[%7]
{casts}%8 = mul {acc} {left}, {right}
%9 = GET {acc} r0
%10 = add {acc} %9, %8
SET r0 = %10
END i2
%11 = GET {acc} r0
%12 = mul int32 i0, {n}:int32
%13 = add int32 %12, i1
STORE {acc} b0[%13] = %11
END i1
END i0
"""
    )


def elementwise(size: int, op: str = "add", dtype: str = "fp32") -> KernelIR:
    """``out = a op b``.

    Parameters
    ----------
    size : int
        Elements.
    op : str, default "add"
        Any op of two operands of `dtype` with a result of this type.
    dtype : str, default "fp32"
    """
    return parse_kernel(
        f"""kernel elementwise
  b0 out: {dtype}[{size}] output
  b1 a: {dtype}[{size}]
  b2 b: {dtype}[{size}]
RANGE i0 < {size} loop
%0 = LOAD {dtype} b1[i0]
%1 = LOAD {dtype} b2[i0]
%2 = {op} {dtype} %0, %1
STORE {dtype} b0[i0] = %2
END i0
"""
    )


def row_max(rows: int, columns: int, dtype: str = "fp32") -> KernelIR:
    """Largest element of each row.

    Parameters
    ----------
    rows, columns : int
        Elements of each axis.
    dtype : str, default "fp32"
    """
    low = "-inf" if dtype.startswith(("fp", "bf")) else "-128"
    return parse_kernel(
        f"""kernel row_max
  b0 out: {dtype}[{rows}] output
  b1 x: {dtype}[{rows * columns}]
  r0: {dtype}
RANGE i0 < {rows} loop
SET r0 = {low}:{dtype}
RANGE i1 < {columns} reduce
%0 = mul int32 i0, {columns}:int32
%1 = add int32 %0, i1
%2 = LOAD {dtype} b1[%1]
%3 = GET {dtype} r0
%4 = max {dtype} %3, %2
SET r0 = %4
END i1
%5 = GET {dtype} r0
STORE {dtype} b0[i0] = %5
END i0
"""
    )


def padded_sum(size: int, dtype: str = "int32") -> KernelIR:
    """``out[i] = x[i - 1] + x[i] + x[i + 1]`` with zeros outside: gated loads in an inner loop.

    Parameters
    ----------
    size : int
        Elements of input and output.
    dtype : str, default "int32"
    """
    return parse_kernel(
        f"""kernel padded_sum
  b0 out: {dtype}[{size}] output
  b1 x: {dtype}[{size}]
  r0: {dtype}
RANGE i0 < {size} loop
SET r0 = 0:{dtype}
RANGE i1 < 3 reduce
%0 = add int32 i0, i1
%1 = lt bool 0:int32, %0
%2 = lt bool %0, {size + 1}:int32
%3 = and bool %1, %2
%4 = add int32 %0, -1:int32
%5 = LOAD {dtype} b1[%4] if %3 else 0:{dtype}
%6 = GET {dtype} r0
%7 = add {dtype} %6, %5
SET r0 = %7
END i1
%8 = GET {dtype} r0
STORE {dtype} b0[i0] = %8
END i0
"""
    )


def conv3x3(size: int, inputs: int, outputs: int, dtype: str = "int8", acc: str = "int32") -> KernelIR:
    """Valid 3x3 convolution, ``size`` x ``size`` pixels, channels first.

    Parameters
    ----------
    size : int
        Pixels of each axis of the input.
    inputs, outputs : int
        Channels.
    dtype : str, default "int8"
        Of input and weights.
    acc : str, default "int32"
        Of products, sums and results.
    """
    inner = size - 2
    casts = "" if dtype == acc else f"%12 = cast {acc} %10\n%13 = cast {acc} %11\n"
    left, right = ("%10", "%11") if dtype == acc else ("%12", "%13")
    return parse_kernel(
        f"""kernel conv3x3
  b0 out: {acc}[{outputs * inner * inner}] output
  b1 x: {dtype}[{inputs * size * size}]
  b2 w: {dtype}[{outputs * inputs * 9}]
  r0: {acc}
RANGE i0 < {outputs} loop
RANGE i1 < {inner} loop
RANGE i2 < {inner} loop
SET r0 = 0:{acc}
RANGE i3 < {inputs} reduce
RANGE i4 < 3 reduce
RANGE i5 < 3 reduce
%0 = mul int32 i3, {size * size}:int32
%1 = add int32 i1, i4
%2 = mul int32 %1, {size}:int32
%3 = add int32 %0, %2
%4 = add int32 i2, i5
%5 = add int32 %3, %4
%10 = LOAD {dtype} b1[%5]
%6 = mul int32 i0, {inputs * 9}:int32
%7 = mul int32 i3, 9:int32
%8 = mul int32 i4, 3:int32
%9 = add int32 %6, %7
%14 = add int32 %9, %8
%15 = add int32 %14, i5
%11 = LOAD {dtype} b2[%15]
{casts}%16 = mul {acc} {left}, {right}
%17 = GET {acc} r0
%18 = add {acc} %17, %16
SET r0 = %18
END i5
END i4
END i3
%19 = GET {acc} r0
%20 = mul int32 i0, {inner * inner}:int32
%21 = mul int32 i1, {inner}:int32
%22 = add int32 %20, %21
%23 = add int32 %22, i2
STORE {acc} b0[%23] = %19
END i2
END i1
END i0
"""
    )


def padded_convolution(
    channels: int, image: tuple[int, int], window: tuple[int, int], outside: tuple[int, int]
) -> KernelIR:
    """Sums of windows of an int8 image, as many as it has pixels; zeros around it.

    Parameters
    ----------
    image, window : (int, int)
        Rows and columns.
    outside : (int, int)
        Rows and columns of the first window that are above and left of the image.
    """
    (height, width), (rows, columns), (top, left) = image, window, outside
    return parse_kernel(
        f"""kernel convolution
  b0 out: int32[{height * width}] output
  b1 x: int8[{channels * height * width}]
  b2 w: int8[{channels * rows * columns}]
  r0: int32
RANGE i0 < {height} loop
RANGE i1 < {width} loop
SET r0 = 0:int32
RANGE i2 < {channels} reduce
RANGE i3 < {rows} reduce
RANGE i4 < {columns} reduce
%0 = add int32 i0, i3
%1 = lt bool {top - 1}:int32, %0
%2 = lt bool %0, {top + height}:int32
%3 = and bool %1, %2
%4 = add int32 i1, i4
%5 = lt bool {left - 1}:int32, %4
%6 = lt bool %4, {left + width}:int32
%7 = and bool %5, %6
%8 = and bool %3, %7
%9 = mul int32 i2, {height * width}:int32
%10 = mul int32 %0, {width}:int32
%11 = add int32 %9, %10
%12 = add int32 %11, %4
%13 = add int32 %12, {-top * width - left}:int32
%14 = LOAD int8 b1[%13] if %8 else 0:int8
%15 = mul int32 i2, {rows * columns}:int32
%16 = mul int32 i3, {columns}:int32
%17 = add int32 %15, %16
%18 = add int32 %17, i4
%19 = LOAD int8 b2[%18]
%20 = cast int32 %14
%21 = cast int32 %19
%22 = mul int32 %20, %21
%23 = GET int32 r0
%24 = add int32 %23, %22
SET r0 = %24
END i4
END i3
END i2
%25 = GET int32 r0
%26 = mul int32 i0, {width}:int32
%27 = add int32 %26, i1
STORE int32 b0[%27] = %25
END i1
END i0
"""
    )
