"""A language model on hardware: divergence from float32, every bit against numpy, cycles and blocks by multipliers.

``python benchmarks/stories/run.py FOLDER [--multipliers 16 64] [--tokens 500] [--simulate 8]`` writes ``stories.json``
and ``.md``; figures that were not measured stay.

FOLDER holds ``stories260K.bin`` and ``tok512.bin`` of https://huggingface.co/karpathy/tinyllamas/tree/main/stories260K
(MIT, not part of this repository).
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from tg2hdl.bench import markdown_table, write_results
from tg2hdl.language import (
    FloatModel,
    IntegerModel,
    Tokenizer,
    calibrated_peaks,
    divergence,
    generated,
    quantized,
    read_checkpoint,
    read_tokenizer,
)
from tg2hdl.language.teller import CALIBRATION, Teller
from tg2hdl_synth.families.ecp5 import ECP5
from tg2hdl_top import CompileOptions
from tg2hdl_top.area import estimated_luts
from tg2hdl_top.memory_blocks import memory_blocks

HERE = Path(__file__).parent
PROMPTS = (
    "",
    "Once upon a time, there was a little girl",
    "One day, a boy named Tim",
    "The cat sat on",
    "Lily and Ben went to the park",
    "There was a big dog",
    'Mom said, "',
    "A small bird lived in a tree",
    "Tom had a red car",
    "It was a sunny day and",
)
"""None of them is one of the calibration."""
LENGTH = 151
SCHEMES = ((9, 9), (8, 8), (6, 9), (5, 9), (4, 9))
"""Bits of weights, and of keys and values."""


def accuracy(model: Any, tokenizer: Tokenizer, context: int) -> list[dict[str, Any]]:
    """Divergence over 1,500 tokens that the float model wrote, and 1,500 that were drawn from it."""
    texts = {
        kind: [generated(FloatModel(model), tokenizer.encode(p), LENGTH, seed) for p in PROMPTS]
        for kind, seed in (("likeliest", None), ("drawn", 1))
    }
    peaks = calibrated_peaks(model, [tokenizer.encode(text) for text in CALIBRATION])
    rows = []
    for bits, cache_bits in SCHEMES:
        numbers = quantized(model, peaks, context=context, bits=bits, cache_bits=cache_bits)
        row: dict[str, Any] = {"weights": bits, "cache": cache_bits}
        for kind, written in texts.items():
            found = np.mean([divergence(model, numbers, text[:-1]) for text in written], 0)
            row[kind] = {"nats": round(float(found[0]), 5), "agreement": round(float(found[1]), 4)}
        rows.append(row)
    return rows


def measure(model: Any, tokenizer: Tokenizer, multipliers: int, given: argparse.Namespace) -> dict[str, Any]:
    """Cycles and blocks of a design, and its bits against numpy."""
    started = time.process_time()
    options = CompileOptions(multipliers=multipliers, host_state=False)
    teller = Teller.of(model, tokenizer, context=given.context, gives_logits=True, options=options)
    row: dict[str, Any] = {"compiled in CPU seconds": round(time.process_time() - started, 1)}
    accelerator, cycles = teller.accelerator, teller.cycles()
    row |= {"first": cycles[0], "last": cycles[-1], "mean": round(sum(cycles) / len(cycles), 1)}
    row["blocks"] = sum(memory_blocks(accelerator.design, ECP5).values())
    row |= {"kernels": len(accelerator.kernels), "cores": len(accelerator.design.core_plans)}
    row["LUTs"] = estimated_luts(accelerator.design)
    equal, tokens = 0, 0
    reference = IntegerModel(teller.numbers)
    for number, prompt in enumerate(PROMPTS):
        text = generated(FloatModel(model), tokenizer.encode(prompt), given.context, seed=number)
        expected = reference(text)
        for position, token in enumerate(text):
            if tokens == given.tokens:
                break
            found = accelerator.golden(np.array([[token]], np.int32), position=position)
            equal += np.array_equal(found[0], expected[position])
            tokens += 1
    row |= {"tokens": tokens, "tokens with all logits equal": equal}
    text = generated(FloatModel(model), tokenizer.encode(PROMPTS[1]), given.context, seed=0)
    expected, same, as_predicted = reference(text), 0, 0
    for position, token in enumerate(text[: given.simulate]):
        run = accelerator.simulate(np.array([[token]], np.int32), position=position)
        same += np.array_equal(run.output[0], expected[position])
        as_predicted += run.cycles.compute == cycles[position]
    if given.simulate:
        row |= {"simulated": given.simulate, "simulated and equal": same, "cycles as predicted": as_predicted}
    return row


def table(record: dict[str, Any]) -> str:
    """The record as Markdown."""
    versions = ", ".join(f"{k} {v}" for k, v in record["versions"].items())
    accuracy = [
        (
            *(row[k] for k in ("weights", "cache")),
            *(f"{row[k]['nats']:.4f}, {row[k]['agreement']:.1%}" for k in ("likeliest", "drawn")),
        )
        for row in record["accuracy"]
    ]
    designs = [
        (
            int(count),
            *(row[k] for k in ("first", "last")),
            *(round(x) for x in (row["mean"], 1e8 / row["mean"])),
            *(row[k] for k in ("blocks", "cores", "LUTs")),
            f"{row['tokens with all logits equal']} of {row['tokens']} tokens",
            f"{row['simulated and equal']} of {row['simulated']} equal, {row['cycles as predicted']} as predicted"
            if "simulated" in row
            else "-",
        )
        for count, row in sorted(record["designs"].items(), key=lambda item: int(item[0]))
    ]
    columns = ("multipliers", "first", "last", "mean", "tokens/s at 100 MHz", "blocks", "cores", "LUTs")
    lines = [
        "# A language model on hardware",
        "",
        "`python benchmarks/stories/run.py FOLDER`; stories260K of llama2.c (260,032 parameters), context "
        f"{record['context']}, {versions}.",
        "",
        "Divergence from float32 (nats a token) and equal likeliest tokens, over 1,500 tokens of each kind:",
        "",
        *markdown_table(("bits of weights", "of the cache", "likeliest text", "drawn text"), accuracy),
        "",
        "Cycles of a token with all logits, by position, with 9 bits; block RAMs of an ECP5 and LUTs are estimated "
        "from the plan:",
        "",
        *markdown_table((*columns, "all logits equal numpy's", "simulated"), designs),
        "",
        f"Measured {record['date']}.  No clock: nothing was placed for this table.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, and write the files."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--multipliers", type=int, nargs="*", default=[16, 64])
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=500)
    parser.add_argument("--simulate", type=int, default=8, metavar="TOKENS")
    given = parser.parse_args()
    model = read_checkpoint(given.folder / "stories260K.bin")
    tokenizer = read_tokenizer(given.folder / "tok512.bin")
    path = HERE / "stories.json"
    record = json.loads(path.read_text()) if path.is_file() else {"designs": {}}
    record["context"] = given.context
    record["accuracy"] = accuracy(model, tokenizer, given.context)
    for count in given.multipliers:
        record["designs"][str(count)] = measure(model, tokenizer, count, given)
        write_results(path, record, table)
        print((HERE / "stories.md").read_text())


if __name__ == "__main__":
    main()
