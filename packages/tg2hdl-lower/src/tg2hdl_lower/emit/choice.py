"""Numbers that differ between the variants of a plan, by the variant that runs."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth import Mux
from amaranth.hdl import Const, Shape, Value

from tg2hdl_lower.plan.hardware_plan import HardwarePlan

__all__ = ["VariantChoice"]


class VariantChoice:
    """Chooses by the number of the variant, which is stable while the core is busy.

    Parameters
    ----------
    plan : HardwarePlan
        Of the core.
    number : Value, optional
        Of the variant that runs; None where there is one plan.

    Attributes
    ----------
    plans : tuple of HardwarePlan
        The variants, or the one plan.
    """

    def __init__(self, plan: HardwarePlan, number: Value | None) -> None:
        self.plans = plan.variants or (plan,)
        self.number = number

    def of(self, values: Sequence[int | Value]) -> int | Value:
        """The value of the variant that runs, of one for each; a number where all agree."""
        first, *others = values
        if not others:
            return first
        numbers = [value for value in values if isinstance(value, int)]
        assert len(numbers) == len(values), "variants have no run-time bounds"
        assert self.number is not None, "a core with variants knows which of them runs"
        if all(value == first for value in numbers):
            return first
        shape = Shape.cast(range(min(numbers), max(numbers) + 1))
        chosen: Value = Const(numbers[0], shape)
        for number, value in enumerate(numbers[1:], 1):
            chosen = Mux(self.number == number, Const(value, shape), chosen)
        return chosen
