"""The name that `Family` had in the first plugins for families."""

from tg2hdl_synth.families.base import Family as SynthesisFlow

__all__ = ["SynthesisFlow"]
