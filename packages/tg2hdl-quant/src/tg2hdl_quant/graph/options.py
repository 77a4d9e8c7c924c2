"""What a user chooses about a quantization."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tg2hdl_ir.errors import InputError

__all__ = ["REQUANTIZATIONS", "ROUNDINGS", "QuantizeOptions"]

REQUANTIZATIONS = ("shift", "multiplier")
ROUNDINGS = ("half_up", "half_even", "onnxruntime")


@dataclass(frozen=True)
class QuantizeOptions:
    """Options of a quantization.

    Parameters
    ----------
    bits : int
        Width of the operands of contractions (bits, 2 to 8).
    weight_bits : int, optional
        Width of weights (bits, 2 to 8); `bits` unless given.
    layers : mapping of str to int
        Width of the weights of single layers by name, as the report names them.
    per_channel : bool
        A scale for each output channel of the weights, or one for all.
    calibration : str
        Name of a registered method that chooses the range of a tensor from samples.
    requantization : {"shift", "multiplier"}
        ``shift``: all scales are powers of two.  ``multiplier``: any scale; sums are multiplied by an integer of
        `multiplier_bits` and shifted.
    rounding : {"half_up", "half_even", "onnxruntime"}
        Of the shift.  ``onnxruntime``: a sum is multiplied by its scale in float32 and rounded half to even, as in ONNX
        Runtime, in integer operations; sums of several terms, which have no such rule, are rounded half to even.
    multiplier_bits : int
        Width of the multipliers of ``requantization="multiplier"`` (bits, 8 to 24).
    internal_bits : int
        Width of tensors that feed no contraction, such as operands of sums and elementwise products (bits, 8 to 16).
    output_bits : int
        Width of outputs that are no plain sum with one scale (bits, 8 to 16).
    bias_correction : bool
        Add to each output channel of a layer what rounding of its weights took from its mean on the samples.
    input_scales : {"auto", "one"}
        ``auto``: the features of a two-dimensional input that only layers with weights read have a scale and an offset
        each where the largest range is 8 times the median or more; the weights take them up.  ``one``: one scale for
        an input.
    seed : int
        Of the random choice of calibration values.
    """

    bits: int = 8
    weight_bits: int | None = None
    layers: Mapping[str, int] = field(default_factory=dict)
    per_channel: bool = True
    calibration: str = "minmax"
    requantization: str = "shift"
    rounding: str = "half_up"
    multiplier_bits: int = 15
    internal_bits: int = 12
    output_bits: int = 16
    bias_correction: bool = False
    input_scales: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        limits = (
            ("bits", self.bits, 2, 8),
            ("weight_bits", self.weights, 2, 8),
            *((f"layers[{name!r}]", bits, 2, 8) for name, bits in self.layers.items()),
            ("multiplier_bits", self.multiplier_bits, 8, 24),
            ("internal_bits", self.internal_bits, 8, 16),
            ("output_bits", self.output_bits, 8, 16),
        )
        for name, value, low, high in limits:
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise InputError(f"{name}={value!r} is no width", hint=f"give {low} to {high} bits")
        choices = (
            ("requantization", self.requantization, REQUANTIZATIONS),
            ("rounding", self.rounding, ROUNDINGS),
            ("input_scales", self.input_scales, ("auto", "one")),
        )
        for name, chosen, known in choices:
            if chosen not in known:
                raise InputError(f"{name}={chosen!r} is unknown", hint="one of: " + ", ".join(known))

    @property
    def weights(self) -> int:
        """Width of weights (bits)."""
        return self.bits if self.weight_bits is None else self.weight_bits
