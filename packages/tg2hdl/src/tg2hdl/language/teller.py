"""Texts by a decoder on hardware: compiled, simulated, or on a board."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from tg2hdl.accelerator import Accelerator
from tg2hdl.compile_model import compile_model_to_hardware
from tg2hdl.language.checkpoint import START, Checkpoint, Tokenizer
from tg2hdl.language.decoder import DecodingStep
from tg2hdl.language.integers import IntegerDecoder, quantized
from tg2hdl.language.reference import calibrated_peaks
from tg2hdl_backend.netlist_size import netlist_cells
from tg2hdl_ir import InputError
from tg2hdl_sim import estimate_engines
from tg2hdl_top import CompileOptions

__all__ = ["Teller", "spoken", "tokens_of"]

CALIBRATION = (
    "Once upon a time",
    "One day, a girl named",
    "The old man sat",
    "There was a big red",
    "In the forest",
    "Mom and Dad gave",
)
"""Beginnings of the texts that find the largest magnitudes."""


@dataclass(frozen=True, eq=False)
class Teller:
    """A language model on hardware.

    Parameters
    ----------
    tokenizer : Tokenizer
    numbers : IntegerDecoder
    accelerator : Accelerator
        Of a `DecodingStep`.
    """

    tokenizer: Tokenizer
    numbers: IntegerDecoder
    accelerator: Accelerator

    @property
    def gives_logits(self) -> bool:
        """Whether a run gives the logits, or the likeliest token."""
        return self.accelerator.captured.outputs[0].shape != self.accelerator.captured.inputs[0].shape

    @classmethod
    def of(
        cls,
        model: Checkpoint,
        tokenizer: Tokenizer,
        *,
        context: int,
        bits: int = 9,
        cache_bits: int = 9,
        gives_logits: bool = False,
        options: CompileOptions | None = None,
    ) -> Teller:
        """Calibrate, quantize and compile a checkpoint.

        Parameters
        ----------
        context : int
            Positions of the cache.
        bits, cache_bits : int, optional
            Of weights, and of keys and values.
        gives_logits : bool, optional
            Compile the step that gives all logits, for texts that are drawn.
        options : CompileOptions, optional
        """
        tokenizer.check(model)
        peaks = calibrated_peaks(model, [tokenizer.encode(text) for text in CALIBRATION])
        numbers = quantized(model, peaks, context=context, bits=bits, cache_bits=cache_bits)
        step = DecodingStep(numbers, "logits" if gives_logits else "token")
        accelerator = compile_model_to_hardware(step, *step.example(), options=options)
        return cls(tokenizer, numbers, accelerator)

    def tokens(
        self,
        first: Sequence[int],
        length: int,
        *,
        engine: str = "auto",
        temperature: float = 0.0,
        seed: int = 0,
    ) -> Iterator[int]:
        """Tokens that follow the first ones, until the text ends.

        Parameters
        ----------
        length : int
            Most tokens of the text, with the first ones.
        engine : str, optional
            As for `Accelerator.simulate`, or ``golden``.
        temperature : float, optional
            0 takes the likeliest token; otherwise tokens are drawn from the logits divided by it, with Gumbel noise.
        seed : int, optional
            Of the noise.
        """
        self.accelerator.reset()
        limit = min(length, self.numbers.context) - len(first)
        if not self.gives_logits:
            results = self.accelerator.generate(
                [[[token]] for token in first], stop=np.array([[START]]), limit=limit, engine=engine
            )
            for result in results:
                if (token := int(np.asarray(result).item())) == START:
                    return
                yield token
            return
        random = np.random.default_rng(seed)
        text = list(first)
        for position in range(limit + len(first) - 1):
            given = np.array([[text[position]]], np.int32)
            if engine == "golden":
                logits = self.accelerator.golden(given, position=position)
            else:
                logits = self.accelerator.simulate(given, engine=engine, position=position).output
            if position + 1 < len(first):
                continue
            values = np.asarray(logits).reshape(-1) * self.numbers.logit
            if temperature:
                values = values / temperature + random.gumbel(size=values.size)
            if (token := int(values.argmax())) == START:
                return
            text.append(token)
            yield token

    def seconds(self, tokens: int) -> float:
        """Seconds in which the quickest engine that is installed simulates so many tokens, within a factor of two."""
        design = self.accelerator.design
        cells = sum(map(netlist_cells, design.core_plans))
        found = estimate_engines(cells, tokens * sum(self.cycles()) // self.numbers.context)
        return min((engine.seconds for engine in found), default=inf)

    def cycles(self) -> list[int]:
        """Cycles of a token at each position."""
        design = self.accelerator.design
        return [design.predicted_cycles({"position": at}) for at in range(self.numbers.context)]


def tokens_of(tokenizer: Tokenizer, prompt: str, length: int) -> list[int]:
    """Tokens of the beginning of a text.

    Parameters
    ----------
    tokenizer : Tokenizer
    prompt : str
    length : int
        Most tokens, with the prompt.

    Raises
    ------
    InputError
        Where it leaves no room for more.
    """
    first = tokenizer.encode(prompt)
    if len(first) >= length:
        raise InputError(
            f"the prompt has {len(first)} tokens, the text at most {length}",
            hint="give a shorter prompt, or a larger --length and --context",
        )
    return first


def spoken(tokenizer: Tokenizer, first: Sequence[int], tokens: Iterator[Any]) -> Iterator[str]:
    """The text of tokens as they come, after that of the first ones; a character comes with its last byte.

    Parameters
    ----------
    tokenizer : Tokenizer
    first : sequence of int
        Tokens of the prompt.
    tokens : iterator
        Those that follow.
    """
    decoder, before = codecs.getincrementaldecoder("utf-8")("replace"), first[0]
    for token in first[1:]:
        yield decoder.decode(tokenizer.decode(token, before))
        before = token
    for token in tokens:
        yield decoder.decode(tokenizer.decode(token, before))
        before = token
    yield decoder.decode(b"", final=True)
