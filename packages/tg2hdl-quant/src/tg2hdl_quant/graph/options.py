"""Options of a quantization."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tg2hdl_ir import InputError, registry

__all__ = ["ACTIVATIONS", "REQUANTIZATIONS", "QuantizeOptions"]

ACTIVATIONS = ("symmetric", "affine")
REQUANTIZATIONS = ("shift", "multiplier")
_SHIFT_WIDTH = 6
"""From this width on, powers of two lose little accuracy as scales of weights (bits)."""


@dataclass(frozen=True)
class QuantizeOptions:
    """Options of a quantization.

    Parameters
    ----------
    bits : int
        Width of the operands of contractions (bits, 2 to 16).
    weight_bits : int, optional
        Width of weights (bits, 2 to 16); `bits`, but at most 8, unless given.
    layers : mapping of str to int
        Width of the weights of single layers by name, as the report names them.
    float_layers : tuple of str
        Parts that are computed in float: layers by their name in the report, or operations by their method, such as
        ``softmax`` or ``layernorm``.
    allow_float : bool
        Whether operations without an integer form are computed in float, or refused.
    per_channel : bool
        A scale for each output channel of the weights, or one for all.
    group : int, optional
        A scale for each group of this many weights along the axis that is summed, where its length is a multiple: an
        integer of 4 bits times the scale of the channel.  Fewer bits of weights lose less then; the sum of each group
        is multiplied by its integer.
    calibration : str
        Name of a registered method that chooses the range of a tensor from samples.
    requantization : {"shift", "multiplier"}, optional
        ``shift``: all scales are powers of two.  ``multiplier``: any scale; sums are multiplied by an integer of
        `multiplier_bits` and shifted.  Unless given ``multiplier`` where any weights or operands have fewer than 6
        bits, which powers of two cost accuracy, else ``shift``.
    rounding : str
        Name of a registered rounding of sums, such as ``half_up`` or ``half_even``.  ``onnxruntime``: a sum is
        multiplied by its scale in float32 and rounded half to even, as in ONNX Runtime, in integer operations;
        ``tflite``: by the doubling high product with a 31-bit multiplier and the rounding shift of TensorFlow Lite,
        which rounds twice.  Sums of several terms, which have no such rule, are rounded half to even in both, and in
        every rounding without a bias.
    multiplier_bits : int
        Width of the multipliers of ``requantization="multiplier"`` (bits, 8 to 24).  With 24, sums have 64 bits where
        32 would cost precision.
    activations : {"symmetric", "affine"}
        ``affine``: the codes (of 8 bits or fewer) of tensors with negative values that only layers with weights read
        span the range of the samples, with a zero point that the biases of those layers take up.  ``symmetric``: as
        many codes below zero as above.
    internal_bits : int
        Width of tensors that feed no contraction, such as operands of sums and elementwise products (bits, 8 to 16).
    output_bits : int
        Width of outputs that are not a plain sum with one scale (bits, 8 to 16).
    weight_rounding : str
        Name of a registered method that chooses the codes of weights: ``nearest``, or ``compensated``, which looks at
        the samples.
    equalization : str, optional
        Name of a registered method, such as ``cross-layer``: channels between layers have scales of their own, which
        the weights that read them take up.
    bias_correction : bool
        Correct each output channel of a layer for the shift of its mean on the samples by the rounding of weights.
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
    float_layers: tuple[str, ...] = ()
    allow_float: bool = False
    per_channel: bool = True
    group: int | None = None
    calibration: str = "minmax"
    requantization: str | None = None
    rounding: str = "half_up"
    multiplier_bits: int = 15
    activations: str = "symmetric"
    internal_bits: int = 12
    output_bits: int = 16
    weight_rounding: str = "nearest"
    equalization: str | None = None
    bias_correction: bool = False
    input_scales: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        given: object = self.float_layers
        names = (
            (given,)
            if isinstance(given, str)
            else tuple(given)
            if isinstance(given, tuple | list)
            else (given,)
        )
        if not all(isinstance(name, str) for name in names):
            raise InputError(f"float_layers={given!r} are not names", hint='give e.g. ("softmax", "fc1")')
        object.__setattr__(self, "float_layers", names)
        limits = (
            ("bits", self.bits, 2, 16),
            ("weight_bits", 8 if self.weight_bits is None else self.weight_bits, 2, 16),
            *((f"layers[{name!r}]", bits, 2, 16) for name, bits in self.layers.items()),
            ("multiplier_bits", self.multiplier_bits, 8, 24),
            ("internal_bits", self.internal_bits, 8, 16),
            ("output_bits", self.output_bits, 8, 16),
        )
        is_size = isinstance(self.group, int) and not isinstance(self.group, bool) and self.group > 1
        if self.group is not None and not (is_size and self.per_channel):
            raise InputError(
                f"group={self.group!r} is not a number of weights with a scale",
                hint="give 2 or more, such as group=32, with per_channel=True",
            )
        for name, value, low, high in limits:
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise InputError(f"{name}={value!r} is not a width", hint=f"give {low} to {high} bits")
        choices = (
            ("requantization", self.requantization or "shift", REQUANTIZATIONS),
            ("rounding", self.rounding, [r.name for r in registry().roundings()]),
            ("input_scales", self.input_scales, ("auto", "one")),
            ("activations", self.activations, ACTIVATIONS),
        )
        for name, chosen, known in choices:
            if chosen not in known:
                raise InputError(f"{name}={chosen!r} is unknown", hint="one of: " + ", ".join(known))

    @property
    def weights(self) -> int:
        """Width of weights (bits)."""
        return min(self.bits, 8) if self.weight_bits is None else self.weight_bits

    @property
    def is_shift(self) -> bool:
        """Whether all scales are powers of two."""
        if self.requantization is not None:
            return self.requantization == "shift"
        return (
            not registry().rounding(self.rounding).any_scale
            and min(self.bits, self.weights, *self.layers.values()) >= _SHIFT_WIDTH
        )
