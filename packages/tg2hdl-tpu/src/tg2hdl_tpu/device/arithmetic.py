"""Operations of the IR as vector operations; narrow integers are kept in 32 bits, extended by their type."""

from __future__ import annotations

from collections.abc import Callable

from tg2hdl_ir import DType, IRConst, IROp, UnsupportedError
from tg2hdl_tpu.device.emitter import SWAPPED, Emitter, LaneConstant, Value
from tg2hdl_tpu.device.half import (
    brain_from_integer,
    half_bits,
    half_from_bits,
    rounded_to_brain,
    rounded_to_half,
)

__all__ = ["STORED", "constant", "from_bits", "operation", "simple_operation", "to_bits", "wrapped"]

#: Types that the machine computes with.
STORED = tuple(
    map(
        DType.from_name,
        ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "fp16", "bf16", "fp32"),
    )
)

_ONE = LaneConstant(0x3F800000)
_SIGN = LaneConstant(-(1 << 31))


def constant(node: IRConst) -> LaneConstant:
    """A literal."""
    dtype = DType.FP32 if node.dtype.is_float else node.dtype
    bits = dtype.const_to_bits(node.value)
    if node.dtype.kind == "int" and bits >> (node.dtype.bit_width - 1):
        bits -= 1 << node.dtype.bit_width
    return _signed(bits)


def _signed(bits: int) -> LaneConstant:
    bits &= (1 << 32) - 1
    return LaneConstant(bits - (1 << 32) if bits >> 31 else bits)


def from_bits(emit: Emitter, bits: Value, dtype: DType) -> Value:
    """The value of the lowest bits of a word.

    Parameters
    ----------
    emit : Emitter
        Gets the code.
    bits : Value
        Words, whose higher bits are ignored.
    dtype : DType
        Stored in 8 or 16 bits, or in 32.
    """
    if dtype.is_bool:
        return emit.operate("ne", emit.operate("and", bits, LaneConstant(255)), LaneConstant(0))
    if dtype == DType.BF16:
        return emit.operate("shl", bits, LaneConstant(16))
    return half_from_bits(emit, bits) if dtype == DType.FP16 else wrapped(emit, bits, dtype)


def to_bits(emit: Emitter, value: Value, dtype: DType) -> Value:
    """A word whose lowest bits are those of the value.

    Parameters
    ----------
    emit : Emitter
        Gets the code.
    value : Value
    dtype : DType
        Stored in 8 or 16 bits, or in 32; higher bits of a word may have any value.
    """
    if dtype == DType.BF16:
        return emit.operate("shr", value, LaneConstant(16))
    return half_bits(emit, value) if dtype == DType.FP16 else value


def wrapped(emit: Emitter, value: Value, dtype: DType) -> Value:
    """The value in the range of an integer type, or rounded to a short float.

    Parameters
    ----------
    emit : Emitter
        Gets the code.
    value : Value
        A word, exact but for wrapping or rounding.
    dtype : DType
        Of the result.
    """
    if dtype == DType.FP16:
        return rounded_to_half(emit, value)
    if dtype == DType.BF16:
        return rounded_to_brain(emit, value)
    spare = 32 - dtype.bit_width
    if spare == 0 or not dtype.is_int:
        return value
    if isinstance(value, LaneConstant):
        return _signed(dtype.wrap(value.bits))
    if dtype.kind == "uint":
        return emit.operate("and", value, LaneConstant(dtype.max_value))
    return emit.operate("sra", emit.operate("shl", value, LaneConstant(spare)), LaneConstant(spare))


#: Operations that are one instruction, by kind of the operands' type.
_SIMPLE: dict[tuple[str, str], str] = {
    **{("add", k): op for k, op in (("int", "add"), ("uint", "add"), ("float", "fadd"), ("bool", "or"))},
    **{("sub", k): op for k, op in (("int", "sub"), ("uint", "sub"), ("float", "fsub"))},
    **{("mul", k): op for k, op in (("int", "mul"), ("uint", "mul"), ("float", "fmul"), ("bool", "and"))},
    **{("div", k): op for k, op in (("int", "div"), ("uint", "divu"), ("float", "fdiv"))},
    **{("mod", k): op for k, op in (("int", "mod"), ("uint", "modu"))},
    **{("max", k): op for k, op in (("int", "max"), ("uint", "maxu"), ("float", "fmax"), ("bool", "or"))},
    **{("min", k): op for k, op in (("int", "min"), ("uint", "minu"), ("float", "fmin"), ("bool", "and"))},
    **{("lt", k): op for k, op in (("int", "lt"), ("uint", "ltu"), ("float", "flt"), ("bool", "ltu"))},
    **{("eq", k): op for k, op in (("int", "eq"), ("uint", "eq"), ("float", "feq"), ("bool", "eq"))},
    **{("ne", k): op for k, op in (("int", "ne"), ("uint", "ne"), ("float", "fne"), ("bool", "ne"))},
    **{(op, k): op for op in ("and", "or", "xor") for k in ("int", "uint", "bool")},
    ("exp2", "float"): "fexp2",
    ("log2", "float"): "flog2",
    ("sin", "float"): "fsin",
    ("sqrt", "float"): "fsqrt",
    ("trunc", "float"): "ftrunc",
}
_OVERFLOWS = ("add", "sub", "mul", "div", "exp2", "log2", "sin", "sqrt")


def simple_operation(op: str, kind: str) -> str | None:
    """The instruction that an operation on a kind of types is, where one is enough.

    Parameters
    ----------
    op : str
        Of the IR.
    kind : str
        Of the operands' type: ``int``, ``uint``, ``float`` or ``bool``.
    """
    return _SIMPLE.get((op, kind))


def operation(emit: Emitter, node: IROp, values: list[Value]) -> Value:
    """Emit an operation of the IR.

    Parameters
    ----------
    emit : Emitter
        Gets the code.
    node : IROp
        The operation, with its types.
    values : list of Value
        Of its operands.

    Raises
    ------
    UnsupportedError
        For an operation or type that the machine does not have.
    """
    types = [s.dtype for s in node.srcs]
    for dtype in (*types, node.dtype):
        if dtype not in STORED:
            raise UnsupportedError(
                f"the tensor processor has no {dtype}, for {node.op}", hint="cast to int32 or float32"
            )
    simple = _SIMPLE.get((node.op, types[0].kind))
    if simple is not None:
        result = _simple(emit, simple, values)
        return wrapped(emit, result, node.dtype) if node.op in _OVERFLOWS else result
    handler = _SPECIAL.get(node.op)
    if handler is None:
        raise UnsupportedError(
            f"the tensor processor has no operation {node.op} of {types[0]}",
            hint="express it with arithmetic, comparisons and where",
        )
    return handler(emit, node, values)


def _simple(emit: Emitter, op: str, values: list[Value]) -> Value:
    a, *rest = values
    if rest and isinstance(a, LaneConstant) and op in SWAPPED and not isinstance(rest[0], LaneConstant):
        return emit.operate(SWAPPED[op], rest[0], a)
    return emit.operate(op, a, *rest)


def _negated(emit: Emitter, node: IROp, values: list[Value]) -> Value:
    if node.dtype.is_float:
        return emit.operate("xor", values[0], _SIGN)
    return wrapped(emit, emit.operate("rsub", values[0], LaneConstant(0)), node.dtype)


def _reciprocal(emit: Emitter, node: IROp, values: list[Value]) -> Value:
    return wrapped(emit, emit.operate("frdiv", values[0], _ONE), node.dtype)


def _where(emit: Emitter, node: IROp, values: list[Value]) -> Value:
    return emit.select(*values)


def _multiply_add(emit: Emitter, node: IROp, values: list[Value]) -> Value:
    product = _simple(emit, "mul", values[:2])
    return wrapped(emit, _simple(emit, "add", [product, values[2]]), node.dtype)


def _shift(emit: Emitter, node: IROp, values: list[Value]) -> Value:
    dtype, (value, amount) = node.dtype, values
    width = dtype.bit_width
    arithmetic = node.op == "shr" and dtype.kind == "int"
    op = "shl" if node.op == "shl" else "sra" if arithmetic else "shr"
    if isinstance(amount, LaneConstant):
        by = amount.bits & 0xFFFFFFFF
        if by >= width and not arithmetic:
            return LaneConstant(0)
        result: Value = emit.operate(op, value, LaneConstant(min(by, width - 1)))
    elif arithmetic:
        result = emit.operate(op, value, emit.operate("minu", amount, LaneConstant(width - 1)))
    else:
        inside = emit.operate("ltu", amount, LaneConstant(width))
        result = emit.select(inside, emit.operate(op, value, amount), LaneConstant(0))
    return wrapped(emit, result, dtype) if op == "shl" else result


def _cast(emit: Emitter, node: IROp, values: list[Value]) -> Value:
    (value,), source, dtype = values, node.srcs[0].dtype, node.dtype
    if source == dtype:
        return value
    if dtype.is_bool:
        return emit.operate("fne" if source.is_float else "ne", value, LaneConstant(0))
    if dtype.is_float:
        if dtype == DType.BF16 and source.is_int and source.bit_width == 32:
            value = brain_from_integer(emit, value, signed=source.is_signed)
        if not source.is_float:
            value = emit.operate("u2f" if source == DType.UINT32 else "i2f", value)
        return wrapped(emit, value, dtype)
    if source.is_float:
        value = emit.operate("f2i", value)
    elif dtype.min_value <= source.min_value and source.max_value <= dtype.max_value:
        return value
    return wrapped(emit, value, dtype)


def _bitcast(emit: Emitter, node: IROp, values: list[Value]) -> Value:
    if node.dtype.is_bool and not node.srcs[0].dtype.is_bool:
        return emit.operate("ne", values[0], LaneConstant(0))
    return from_bits(emit, to_bits(emit, values[0], node.srcs[0].dtype), node.dtype)


_SPECIAL: dict[str, Callable[[Emitter, IROp, list[Value]], Value]] = {
    "neg": _negated,
    "reciprocal": _reciprocal,
    "where": _where,
    "mulacc": _multiply_add,
    "shl": _shift,
    "shr": _shift,
    "cast": _cast,
    "bitcast": _bitcast,
}
