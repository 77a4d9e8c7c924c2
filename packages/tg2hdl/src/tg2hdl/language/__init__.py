"""Small language models: checkpoints of llama2.c as decoding steps in integers."""

from __future__ import annotations

from tg2hdl.language.checkpoint import Checkpoint, Tokenizer, read_checkpoint, read_tokenizer
from tg2hdl.language.integers import IntegerDecoder, quantized
from tg2hdl.language.reference import FloatModel, IntegerModel, calibrated_peaks, divergence, generated
from tg2hdl.language.story import load_story

__all__ = [
    "Checkpoint",
    "FloatModel",
    "IntegerDecoder",
    "IntegerModel",
    "Tokenizer",
    "calibrated_peaks",
    "divergence",
    "generated",
    "load_story",
    "quantized",
    "read_checkpoint",
    "read_tokenizer",
]
