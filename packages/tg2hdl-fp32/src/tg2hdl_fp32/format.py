"""Floating-point formats: widths, bias, special patterns and exact conversion; their values in Amaranth."""

from __future__ import annotations

__all__ = [
    "BF16",
    "FORMATS",
    "FP8_E4M3",
    "FP8_E5M2",
    "FP16",
    "FP32",
    "FP64",
    "FloatValue",
    "Format",
    "format_by_name",
]

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from amaranth.hdl import Const, Shape, ShapeCastable, Value, ValueCastable, unsigned
from amaranth.lib import data

from .errors import FloatParameterError, FloatTypeError, one_of
from .modes import RoundingMode
from .named import import_named


@dataclass(frozen=True)
class Format(ShapeCastable):
    """A binary floating-point format: sign, biased exponent, fraction.

    It is a shape of Amaranth too: ``Signal(FP32, init=1.5)`` and ports ``In(FP32)`` refuse to be assigned or connected
    to values of another format; see `FloatValue`.

    Parameters
    ----------
    exponent : int
        Width of the exponent field in bits, 2 to 15.
    significand : int
        Precision in bits, the hidden bit included (24 for FP32), 2 to 113.
    finite : bool
        The format has no infinities: the all-ones pattern is the only NaN and overflow gives NaN
        (the ``fn`` family of OCP and ml_dtypes). IEEE 754 formats have ``False``.
    name : str
        Name in tables and messages; derived from the widths when left out.
    """

    exponent: int
    significand: int
    finite: bool = False
    name: str = ""

    def __post_init__(self) -> None:
        for field, low, high in (("exponent", 2, 15), ("significand", 2, 113)):
            value = getattr(self, field)
            if not isinstance(value, int) or isinstance(value, bool):
                raise FloatTypeError(f"Format {field} must be an int, not {value!r}")
            if not low <= value <= high:
                raise FloatParameterError(
                    f"Format {field} width {value} is not allowed; use {low} to {high} bits"
                )
        if not self.name:
            suffix = "FN" if self.finite else ""
            object.__setattr__(self, "name", f"E{self.exponent}M{self.significand - 1}{suffix}")

    def __str__(self) -> str:
        return self.name

    @property
    def width(self) -> int:
        """Bits of one value."""
        return self.exponent + self.significand

    @property
    def fraction(self) -> int:
        """Bits of the stored fraction."""
        return self.significand - 1

    @property
    def bias(self) -> int:
        """Exponent bias."""
        return (1 << (self.exponent - 1)) - 1

    @property
    def max_exponent_field(self) -> int:
        """Largest exponent field of a finite value."""
        return (1 << self.exponent) - (1 if self.finite else 2)

    @property
    def emin(self) -> int:
        """Exponent of the smallest normal value."""
        return 1 - self.bias

    @property
    def emax(self) -> int:
        """Exponent of the largest finite value."""
        return self.max_exponent_field - self.bias

    @property
    def most_root_places(self) -> int:
        """Places by which a square root may lie below the smallest normal number; 0 in all common formats."""
        return max(self.emin - (self.emin - self.fraction) // 2, 0)

    @property
    def sign_mask(self) -> int:
        """Pattern with only the sign bit set; the pattern of -0.0."""
        return 1 << (self.width - 1)

    @property
    def infinity(self) -> int:
        """Pattern of +infinity."""
        if self.finite:
            raise FloatParameterError(f"{self} has no infinity; its largest value is {self.max_finite:#x}")
        return ((1 << self.exponent) - 1) << self.fraction

    @property
    def nan(self) -> int:
        """Pattern of the canonical NaN: positive, quiet, no payload."""
        if self.finite:
            return self.sign_mask - 1
        return self.infinity | 1 << (self.fraction - 1)

    @property
    def max_finite(self) -> int:
        """Pattern of the largest finite value."""
        return self.sign_mask - 2 if self.finite else self.infinity - 1

    @property
    def min_normal(self) -> int:
        """Pattern of the smallest positive normal value."""
        return 1 << self.fraction

    @property
    def one(self) -> int:
        """Pattern of 1.0."""
        return self.bias << self.fraction

    @property
    def layout(self) -> data.StructLayout:
        """Amaranth layout of a value: ``fraction``, ``exponent``, ``sign``, from bit 0."""
        return data.StructLayout({"fraction": self.fraction, "exponent": self.exponent, "sign": 1})

    # Methods that Amaranth requires of a shape.

    def as_shape(self) -> Shape:
        """Bits of a value."""
        return unsigned(self.width)

    def const(self, init: Any) -> Const:
        """Return a constant: a float is rounded to nearest, an int is a bit pattern, None is +0."""
        if isinstance(init, FloatValue):
            raise FloatTypeError(f"a constant of {self} must be a float or an int, not {init!r}")
        pattern = self.encode(init) if isinstance(init, float | Fraction) else init or 0
        if not 0 <= pattern <= self.sign_mask * 2 - 1:
            raise FloatParameterError(
                f"{init!r} is not a pattern of {self}; give a float, or an int of {self.width} bits"
            )
        return Const(pattern, self.width)

    def __call__(self, target: Any) -> FloatValue:
        """Return bits as a value of this format."""
        return FloatValue(self, target)

    def from_bits(self, raw: int) -> int:
        """Return a value as Amaranth's simulator shows it: its bit pattern."""
        return raw

    def is_nan(self, bits: int) -> bool:
        """Tell whether a pattern is a NaN."""
        magnitude = bits & (self.sign_mask - 1)
        return magnitude == self.nan if self.finite else magnitude > self.infinity

    def is_inf(self, bits: int) -> bool:
        """Tell whether a pattern is an infinity."""
        return not self.finite and bits & (self.sign_mask - 1) == self.infinity

    def to_fraction(self, bits: int) -> Fraction:
        """Return the exact value of a finite pattern; the sign of zero is lost."""
        if self.is_nan(bits) or self.is_inf(bits):
            raise FloatParameterError(f"{self} pattern {bits:#x} is not finite")
        field = bits >> self.fraction & ((1 << self.exponent) - 1)
        sig = bits & (self.min_normal - 1) | (self.min_normal if field else 0)
        value = Fraction(sig) * Fraction(2) ** (max(field, 1) - self.bias - self.fraction)
        return -value if bits & self.sign_mask else value

    def decode(self, bits: int) -> float:
        """Return a pattern as a Python float; exact for every format within FP64."""
        sign = -1.0 if bits & self.sign_mask else 1.0
        if self.is_nan(bits):
            return float("nan")
        if self.is_inf(bits):
            return sign * float("inf")
        value = float(self.to_fraction(bits))
        return value if value else sign * 0.0

    def encode(
        self,
        value: float | Fraction,
        rounding: RoundingMode = RoundingMode.RNE,
        *,
        negative_zero: bool = False,
        saturate: bool = False,
    ) -> int:
        """Return the pattern of a number, correctly rounded.

        Parameters
        ----------
        value : float, int or Fraction
            The number; a float may be infinite or NaN. A ``finite`` format gives NaN for infinities.
        rounding : RoundingMode
            Direction of rounding.
        negative_zero : bool
            An exact zero given as int or Fraction becomes -0.0.
        saturate : bool
            A finite number beyond the largest becomes the largest, whatever the rounding.
        """
        if isinstance(value, float):
            if value != value:
                return self.nan
            if value in (float("inf"), float("-inf")):
                sign = self.sign_mask if value < 0 else 0
                return self.nan if self.finite else sign | self.infinity
            negative_zero = value == 0 and str(value).startswith("-")
        exact = Fraction(value)
        if exact == 0:
            return self.sign_mask if negative_zero else 0
        negative = exact < 0
        exact = abs(exact)
        exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
        if Fraction(2) ** exponent > exact:
            exponent -= 1
        exponent = max(exponent, self.emin)
        scaled = exact / Fraction(2) ** (exponent - self.fraction)
        sig = rounding.round_fraction(scaled, negative)
        # A significand of 2**p carries into the exponent field by itself.
        pattern = (exponent + self.bias - 1 << self.fraction) + sig
        if pattern > self.max_finite:
            # Overflow as in IEEE 754, 7.4: the infinity (NaN when there is none) or the largest finite value.
            if saturate or not rounding.overflows_to_infinity(negative):
                pattern = self.max_finite
            elif self.finite:
                return self.nan
            else:
                pattern = self.infinity
        return pattern | (self.sign_mask if negative else 0)

    def numpy_dtype(self) -> Any:
        """Return the numpy (or ml_dtypes) dtype of this format; imports them on demand."""
        import numpy as np

        if (self.exponent, self.significand, self.finite) in _NUMPY:
            return np.dtype(_NUMPY[self.exponent, self.significand, self.finite])
        import ml_dtypes

        key = (self.exponent, self.significand, self.finite)
        if key not in _ML_DTYPES:
            raise FloatParameterError(
                f"{self} has no numpy dtype; use one of {one_of(f for f in FORMATS.values())}"
            )
        return np.dtype(getattr(ml_dtypes, _ML_DTYPES[key]))

    def from_numpy(self, array: Any) -> Any:
        """Return the patterns of an array as unsigned integers; other dtypes are converted first."""
        import numpy as np

        dtype = self.numpy_dtype()
        return np.asarray(array).astype(dtype).view(np.dtype(f"u{dtype.itemsize}"))

    def to_numpy(self, bits: Any) -> Any:
        """Return an array of unsigned patterns as an array of this format's dtype."""
        import numpy as np

        dtype = self.numpy_dtype()
        return np.asarray(bits).astype(np.dtype(f"u{dtype.itemsize}")).view(dtype)


class FloatValue(ValueCastable):
    """A value whose shape is a `Format`, made by ``Signal(FP32)`` or a port ``In(FP32)``.

    It takes a value of the same format, a number, or bits without a format (``Value``) of the same width.
    ``as_value()`` gives the bits.

    Parameters
    ----------
    format : Format
        Its shape.
    target : Value
        Its bits, as many as the format has.
    """

    def __init__(self, format: Format, target: Any) -> None:
        self._format, self._target = format, Value.cast(target)

    def shape(self) -> Format:
        """The format."""
        return self._format

    def as_value(self) -> Value:
        """The bits."""
        return self._target

    def eq(self, other: Any, *, src_loc_at: int = 0) -> Any:
        """Assign a value of the same format, bits, or a number.

        Parameters
        ----------
        other : FloatValue, Value, float or int
            A float is rounded to nearest, an int is a bit pattern.
        src_loc_at : int
            As in Amaranth: frames between the caller and this method.

        Raises
        ------
        FloatTypeError
            For a value of another format, or bits of another width.
        """
        if isinstance(other, FloatValue):
            if other._format != self._format:
                raise FloatTypeError(
                    f"a value of {other._format} cannot be assigned to {self._format}; convert it with FloatToFloat"
                )
        elif isinstance(other, Value | ValueCastable):
            width = len(Value.cast(other))
            if width != self._format.width:
                raise FloatTypeError(
                    f"{width} bits cannot be assigned to {self._format}, which has {self._format.width}"
                )
        else:
            other = self._format.const(other)
        return self._target.eq(Value.cast(other), src_loc_at=src_loc_at + 1)

    def __repr__(self) -> str:
        return f"FloatValue({self._format}, {self._target!r})"


_NUMPY = {(8, 24, False): "float32", (5, 11, False): "float16", (11, 53, False): "float64"}
_ML_DTYPES = {(8, 8, False): "bfloat16", (4, 4, True): "float8_e4m3fn", (5, 3, False): "float8_e5m2"}

FP32 = Format(8, 24, name="FP32")
FP16 = Format(5, 11, name="FP16")
BF16 = Format(8, 8, name="BF16")
FP64 = Format(11, 53, name="FP64")
#: The ``fn`` variant (ml_dtypes ``float8_e4m3fn``, OCP E4M3): largest value 448, no infinity.
FP8_E4M3 = Format(4, 4, finite=True, name="FP8_E4M3")
FP8_E5M2 = Format(5, 3, name="FP8_E5M2")

FORMATS = {f.name: f for f in (FP32, FP16, BF16, FP64, FP8_E4M3, FP8_E5M2)}


def format_by_name(name: str) -> Format:
    """Return a named format, in upper or lower case, or one given as ``E<exponent>M<fraction>``, such as ``E6M9``.

    ``module:NAME`` is a format of another package, for its cores.
    """
    if ":" in name:
        found: Format = import_named(name)
        return found
    upper = name.upper()
    if upper in FORMATS:
        return FORMATS[upper]
    exponent, separator, fraction = upper.removeprefix("E").partition("M")
    if upper.startswith("E") and separator and exponent.isdigit() and fraction.isdigit():
        return Format(int(exponent), int(fraction) + 1)
    raise FloatParameterError(
        f"unknown format {name!r}; use one of {one_of(FORMATS)}, or E<exponent>M<fraction>"
    )
