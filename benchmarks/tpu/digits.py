"""The int8 classifier of handwritten digits (64-32-10) on the processor and as a generated design of 16 multipliers.

python benchmarks/tpu/digits.py [--images 360] [--area] [-o benchmarks/tpu/digits.md]

Every score of every image is compared with numpy, on both.  `--area` synthesizes both for an ECP5 (minutes; no place
and route).  The processor multiplies in its vector unit: a dot product of 64 is one instruction of 4 rows.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import tg2hdl
from tg2hdl_synth import synthesize
from tg2hdl_tpu import Bundle, Config, Machine, Region, assemble
from tg2hdl_tpu.hardware.core import TensorCore

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
MULTIPLIERS = 16
# Rows of the scratchpad; operands that are read together lie in different banks or ports.
X, HIDDEN, W1, W2, B1, B2, SUMS, SCORES = 0, 4, 16, 144, 164, 166, 512, 516


def program(shift: int) -> str:
    lines = [
        f"mul v[{SUMS * 16 + j}], v[{W1 + 4 * j}], v[{X}], n=4 acc reduce=add levels=15 seg=1"
        for j in range(32)
    ]
    lines += [
        f"add v[{SUMS}], v[{SUMS}], v[{B1}], n=2 relu",
        f"shr v[{SUMS}], v[{SUMS}], #{shift}, n=2",
        f"min v[{HIDDEN}], v[{SUMS}], #127, n=2",
    ]
    lines += [
        f"mul v[{SCORES * 16 + j}], v[{W2 + 2 * j}], v[{HIDDEN}], n=2 acc reduce=add levels=15 seg=1"
        for j in range(10)
    ]
    lines += [f"add v[{SCORES}], v[{SCORES}], v[{B2}]", "halt", f".out scores vmem {SCORES} 1"]
    return "\n".join(lines)


def bundle_of(weights: dict[str, np.ndarray], config: Config) -> Bundle:
    """Return program and weights of one model."""
    code = assemble(program(int(weights["shift"][0])), config, name="digits")
    data = np.zeros((SUMS, 16), np.int32)
    data[W1 : W1 + 128] = weights["w1"].T.reshape(-1, 16)
    data[W2 : W2 + 20] = weights["w2"].T.reshape(-1, 16)
    data[B1 : B1 + 2] = weights["b1"].reshape(-1, 16)
    data[B2, :10] = weights["b2"].ravel()
    rows = data[W1 : B2 + 1]
    return Bundle(config, code.program, (Region("vmem", W1, np.ascontiguousarray(rows)),), code.outputs)


def expected(weights: dict[str, np.ndarray], images: np.ndarray) -> np.ndarray:
    sums = images.astype(np.int64) @ weights["w1"].astype(np.int64) + weights["b1"]
    hidden = np.clip(np.maximum(sums, 0) >> int(weights["shift"][0]), -128, 127)
    return hidden @ weights["w2"].astype(np.int64) + weights["b2"]


def processor(
    weights: dict[str, np.ndarray], images: np.ndarray, config: Config
) -> tuple[int, int, int, int]:
    """Return cycles of an image, with its transfer, those that a new model takes to come in, and its rows."""
    bundle = bundle_of(weights, config)
    machine = Machine(config)
    machine.load_bundle(bundle)
    found, cycles = [], set()
    for image in images:
        machine.vmem[X : X + 4] = image.reshape(4, 16)
        result = machine.run()
        assert not result.trap
        cycles.add(result.cycles)
        found.append(machine.vmem[SCORES, :10].copy())
    np.testing.assert_array_equal(found, expected(weights, images))
    assert len(cycles) == 1, "cycles depend on the data"
    # The host port takes a row and an instruction a cycle.
    region = bundle.data[0]
    (count,) = cycles
    return count, count + 4 + 1, max(len(region.rows), len(bundle.program)), len(region.rows)


def generated(weights: dict[str, np.ndarray], images: np.ndarray) -> tuple[Any, Any, float]:
    sys.path.insert(0, str(DIGITS))
    from int8_mlp import example_inputs, model

    begun = time.perf_counter()
    accelerator = tg2hdl.compile(model, *example_inputs, multipliers=MULTIPLIERS, part="ecp5-45k")
    seconds = time.perf_counter() - begun
    with accelerator.session() as session:
        results = [session.run(image.reshape(1, 64)) for image in images]
    found = np.concatenate([r.output for r in results])
    np.testing.assert_array_equal(found, expected(weights, images))
    return accelerator, results[0].cycles, seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=360)
    parser.add_argument("--area", action="store_true")
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    sys.path.insert(0, str(DIGITS))
    from dataset import load_split
    from safetensors.numpy import load_file

    weights = load_file(DIGITS / "int8_mlp.safetensors")
    _, _, images, labels = load_split()
    images, labels = images[: arguments.images], labels[: arguments.images]
    right = int((expected(weights, images).argmax(1) == labels).sum())
    fast = Config.ecp5()
    plain, deep = (processor(weights, images, config) for config in (Config(), fast))
    accelerator, cycles, seconds = generated(weights, images)
    lines = [
        "# Digits, int8 64-32-10: the processor and a generated design",
        "",
        f"`python benchmarks/tpu/digits.py{' --area' if arguments.area else ''} -o benchmarks/tpu/digits.md`;"
        f" {len(images)} images, {right} right;",
        "every score of both is that of numpy. 2,368 products an image; both have 16 multipliers at work.",
        "",
        "| | processor, no pipeline registers | processor, `Config.ecp5()` | generated |",
        "|---|---|---|---|",
        f"| cycles an image, operands in the chip | {plain[0]} | {deep[0]} | {cycles.compute} |",
        f"| of the generated design's | {plain[0] / cycles.compute:.2f} | {deep[0] / cycles.compute:.2f} | 1 |",
        f"| with the image coming in and the scores going out | {plain[1]} | {deep[1]} | {cycles.total} |",
        f"| another model of this size | {plain[2]} cycles at the host port | the same |"
        f" compiled in {seconds:.1f} s, then a new bitstream |",
    ]
    if arguments.area:
        columns = []
        for top in (TensorCore(Config()), TensorCore(fast), accelerator.top):
            columns.append(synthesize(top, part="ecp5-45k", place=False).cells)
        for kind, title in (("comb", "LUT"), ("ff", "FF"), ("dsp", "DSP"), ("bram", "BRAM")):
            lines.append(
                f"| {title} before place and route | " + " | ".join(f"{c[kind]:,}" for c in columns) + " |"
            )
    lines += [
        "",
        "The image and the scores pass the processor's port by rows of 512 bits, the generated design's by elements.",
        "The multipliers of the vector unit are 32 bits wide, those of the generated design 8. A generated design with",
        "loadable weights takes another model of the same shape without a new bitstream, the processor one of any",
        "shape that fits.",
    ]
    text = "\n".join([*lines, ""])
    print(text)
    if arguments.output:
        arguments.output.write_text(text)


if __name__ == "__main__":
    main()
