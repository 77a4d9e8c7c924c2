"""Values of a format in Amaranth: a wire of another format is refused where it is connected."""

__all__ = ["FloatValue"]

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Value, ValueCastable

from .errors import FloatTypeError

if TYPE_CHECKING:
    from .format import Format


class FloatValue(ValueCastable):
    """A value whose shape is a `Format`, made by ``Signal(FP32)`` or a port ``In(FP32)``.

    It takes a value of the same format, a number, or bits without a format (``Value``) of the same width.
    ``as_value()`` gives the bits.
    """

    def __init__(self, format: "Format", target: Any) -> None:
        self._format, self._target = format, Value.cast(target)

    def shape(self) -> "Format":
        """The format."""
        return self._format

    def as_value(self) -> Value:
        """The bits."""
        return self._target

    def eq(self, other: Any, *, src_loc_at: int = 0) -> Any:
        """Assign a value of the same format, bits, or a number.

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
