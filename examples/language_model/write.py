"""A language model whose cache stays in the hardware: token by token, every logit against numpy.

``python write.py`` takes the small model of fairy tales that tg2hdl has;
``python write.py stories260K.bin tok512.bin --prompt "Once upon a time"`` another one, of llama2.c.
"""

from __future__ import annotations

import argparse
from itertools import pairwise

import numpy as np

import tg2hdl
from tg2hdl.language import (
    IntegerModel,
    calibrated_peaks,
    load_story,
    quantized,
    read_checkpoint,
    read_tokenizer,
)
from tg2hdl.language.decoder import DecodingStep
from tg2hdl.language.teller import CALIBRATION

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> str:
    """Write a text; returns it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help="weights and tokenizer")
    parser.add_argument("--prompt", default="There was once a ")
    parser.add_argument("--length", type=int, default=40)
    given = parser.parse_args(arguments)
    model, tokenizer = load_story()
    if given.files:
        weights, pieces = given.files
        model, tokenizer = read_checkpoint(weights), read_tokenizer(pieces)

    # Float32 to integers: scales from texts that the float model writes, weights of 9 bits.
    peaks = calibrated_peaks(model, [tokenizer.encode(text) for text in CALIBRATION])
    numbers = quantized(model, peaks, context=min(64, model.context))

    # The step in tinygrad: a token and its position in, all logits out, the cache in place.
    step = DecodingStep(numbers, "logits")
    accelerator = tg2hdl.compile(step, *step.example(), multipliers=16)
    print(accelerator, accelerator.state, sep="\n")

    tokens, logits = tokenizer.encode(given.prompt), []
    session = accelerator.session()
    for position in range(given.length):
        run = session.run(np.array([[tokens[position]]], np.int32), position=position)
        logits.append(np.asarray(run.output).reshape(-1))
        assert run.cycles.compute == accelerator.design.predicted_cycles({"position": position})
        if position == len(tokens) - 1:
            tokens.append(int(logits[-1].argmax()))
            print(tokenizer.decode(tokens[-1], tokens[-2]).decode(errors="replace"), end="", flush=True)
    print()
    np.testing.assert_array_equal(np.array(logits), IntegerModel(numbers)(tokens[: given.length]))
    print(
        f"all logits of {given.length} tokens equal numpy's; {run.cycles.compute:,} cycles for the last one"
    )
    return b"".join(tokenizer.decode(b, a) for a, b in pairwise(tokens)).decode(errors="replace")


if __name__ == "__main__":
    main()
