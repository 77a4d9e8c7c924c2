"""Scalar types of the IR: name, kind and exact bit layout."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from tg2hdl_ir.errors import UnsupportedError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["DType"]


@dataclass(frozen=True)
class DType:
    """A scalar type.

    Parameters
    ----------
    name : str
        Name in printed IR, e.g. ``int8`` or ``fp32``.
    kind : {"bool", "int", "uint", "float"}
        Number class; ``int`` is two's complement.
    bit_width : int
        Storage width (bits).
    exponent_bits, fraction_bits : int
        Of a float: width of the exponent field and of the fraction field without the hidden bit (bits).
    finite : bool
        A float format without infinities (FP8 E4M3 in its ``fn`` form).
    """

    name: str
    kind: str
    bit_width: int
    exponent_bits: int = 0
    fraction_bits: int = 0
    finite: bool = False

    BOOL: ClassVar[DType]
    INT8: ClassVar[DType]
    INT16: ClassVar[DType]
    INT32: ClassVar[DType]
    INT64: ClassVar[DType]
    UINT8: ClassVar[DType]
    UINT16: ClassVar[DType]
    UINT32: ClassVar[DType]
    UINT64: ClassVar[DType]
    FP8_E4M3: ClassVar[DType]
    FP8_E5M2: ClassVar[DType]
    FP16: ClassVar[DType]
    BF16: ClassVar[DType]
    FP32: ClassVar[DType]
    FP64: ClassVar[DType]

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"DType.{self.name.upper()}"

    @property
    def is_float(self) -> bool:
        """Whether the type is a floating-point format."""
        return self.kind == "float"

    @property
    def is_int(self) -> bool:
        """Whether the type is an integer, signed or not; bool is not."""
        return self.kind in ("int", "uint")

    @property
    def is_bool(self) -> bool:
        """Whether the type is the one-bit truth value."""
        return self.kind == "bool"

    @property
    def is_signed(self) -> bool:
        """Whether the type holds negative numbers."""
        return self.kind in ("int", "float")

    @property
    def min_value(self) -> int:
        """Smallest value of an integer or bool type."""
        return -(1 << (self.bit_width - 1)) if self.kind == "int" else 0

    @property
    def max_value(self) -> int:
        """Largest value of an integer or bool type."""
        return (1 << (self.bit_width - (self.kind == "int"))) - 1

    def numpy(self) -> np.dtype[Any]:
        """Numpy type that stores this type; arbitrary integer widths use the next larger one.

        Raises
        ------
        UnsupportedError
            For a float format that neither numpy nor ml_dtypes knows, or an integer above 64 bits.
        """
        return self._storage

    @cached_property
    def _storage(self) -> np.dtype[Any]:
        import numpy as np

        known = _numpy_types()
        if self.name in known:
            return known[self.name]
        if self.is_int and self.bit_width <= 64:
            bits = max(8, 1 << (self.bit_width - 1).bit_length())
            return np.dtype(f"{'int' if self.kind == 'int' else 'uint'}{bits}")
        raise UnsupportedError(
            f"no numpy type stores {self.name}",
            hint="use one of " + ", ".join(sorted(known)) + " at the borders of the design",
        )

    def wrap(self, value: int) -> int:
        """Reduce an integer modulo 2^bit_width into the range of this integer type."""
        value &= (1 << self.bit_width) - 1
        if self.kind == "int" and value >> (self.bit_width - 1):
            value -= 1 << self.bit_width
        return value

    def const_to_bits(self, value: float | int | bool) -> int:
        """Bit pattern of a value: IEEE pattern for floats (round to nearest even), two's complement for integers."""
        if self.is_float:
            if self.name == "fp64":
                return int.from_bytes(struct.pack("<d", value), "little")
            import numpy as np

            from tg2hdl_ir.rounding import round_to_format

            with np.errstate(over="ignore"):
                scalar = round_to_format(np.array(value, dtype=np.float64), self)
            return int(scalar.view(f"uint{self.bit_width}"))
        return int(value) & ((1 << self.bit_width) - 1)

    def bits_to_const(self, bits: int) -> float | int | bool:
        """Value of a bit pattern; inverse of `const_to_bits`."""
        if self.is_float:
            import numpy as np

            return float(np.array(bits, dtype=f"uint{self.bit_width}").view(self.numpy()))
        if self.is_bool:
            return bool(bits & 1)
        return self.wrap(bits)

    def array_to_bits(self, array: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
        """Bit patterns of an array of this type, as uint64 of the same shape."""
        import numpy as np

        array = np.asarray(array, order="C")
        if self.is_float:
            return array.astype(self.numpy(), copy=False).view(f"uint{self.bit_width}").astype(np.uint64)
        return array.astype(np.int64 if self.kind == "int" else np.uint64).astype(np.uint64) & np.uint64(
            (1 << self.bit_width) - 1
        )

    def bits_to_array(self, bits: npt.NDArray[np.uint64]) -> npt.NDArray[Any]:
        """Array of this type from bit patterns; inverse of `array_to_bits`."""
        if self.is_float:
            return bits.astype(f"uint{self.bit_width}").view(self.numpy())
        import numpy as np

        if self.is_bool:
            return (bits & np.uint64(1)).astype(np.bool_)
        if self.kind == "int":
            shift = np.int64(64 - self.bit_width)
            return ((bits.astype(np.int64) << shift) >> shift).astype(self.numpy())
        return bits.astype(self.numpy())

    @staticmethod
    def named() -> tuple[DType, ...]:
        """Return the types that have a name of their own, in a fixed order."""
        return tuple(_MEMBERS.values())

    @staticmethod
    def from_width(bit_width: int, is_signed: bool) -> DType:
        """Integer type of any width (bits).

        Parameters
        ----------
        bit_width : int
            1 or more.
        is_signed : bool
            Two's complement or unsigned.
        """
        kind = "int" if is_signed else "uint"
        return DType(f"{kind}{bit_width}", kind, bit_width)

    @staticmethod
    def from_name(name: str) -> DType:
        """Type of a printed name.

        Raises
        ------
        UnsupportedError
            For a name that is neither a member nor ``intN``/``uintN``.
        """
        if name in _MEMBERS:
            return _MEMBERS[name]
        if not isinstance(name, str):
            raise UnsupportedError(f"{name!r} is not a name of a dtype", hint="give e.g. 'int8'")
        for kind in ("uint", "int"):
            if name.startswith(kind) and name[len(kind) :].isdigit() and int(name[len(kind) :]) > 0:
                return DType.from_width(int(name[len(kind) :]), kind == "int")
        raise UnsupportedError(
            f"unknown dtype {name!r}", hint="known: " + ", ".join(_MEMBERS) + ", intN, uintN"
        )

    @staticmethod
    def from_tinygrad(dtype: Any) -> DType:
        """Type of a tinygrad dtype.

        Raises
        ------
        UnsupportedError
            For a dtype without counterpart.
        """
        name = _TINYGRAD.get(getattr(dtype, "name", str(dtype)))
        if name is None or getattr(dtype, "count", 1) != 1:
            raise UnsupportedError(
                f"no hardware type for tinygrad dtype {dtype}",
                hint="cast to one of " + ", ".join(sorted(set(_TINYGRAD.values()))),
            )
        return _MEMBERS[name]


_MEMBERS: dict[str, DType] = {
    t.name: t
    for t in (
        DType("bool", "bool", 1),
        *(DType(f"int{n}", "int", n) for n in (8, 16, 32, 64)),
        *(DType(f"uint{n}", "uint", n) for n in (8, 16, 32, 64)),
        DType("fp8_e4m3", "float", 8, 4, 3, finite=True),
        DType("fp8_e5m2", "float", 8, 5, 2),
        DType("fp16", "float", 16, 5, 10),
        DType("bf16", "float", 16, 8, 7),
        DType("fp32", "float", 32, 8, 23),
        DType("fp64", "float", 64, 11, 52),
    )
}
for _t in _MEMBERS.values():
    setattr(DType, _t.name.upper(), _t)


@cache
def _numpy_types() -> dict[str, np.dtype[Any]]:
    """Numpy types by name; numpy is loaded at the first use, since it takes longer than all else a command needs."""
    import ml_dtypes
    import numpy as np

    return {
        "bool": np.dtype(np.bool_),
        **{
            n: np.dtype(n) for n in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
        },
        "fp8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
        "fp8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
        "fp16": np.dtype(np.float16),
        "bf16": np.dtype(ml_dtypes.bfloat16),
        "fp32": np.dtype(np.float32),
        "fp64": np.dtype(np.float64),
    }


_TINYGRAD = {
    "bool": "bool",
    "signed char": "int8",
    "char": "int8",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "unsigned char": "uint8",
    "unsigned short": "uint16",
    "unsigned int": "uint32",
    "unsigned long": "uint64",
    "float8_e4m3": "fp8_e4m3",
    "float8_e5m2": "fp8_e5m2",
    "half": "fp16",
    "__bf16": "bf16",
    "float": "fp32",
    "double": "fp64",
}
