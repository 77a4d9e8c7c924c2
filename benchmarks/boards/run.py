"""Bitstreams of digit classifiers for boards: clock, utilization, images per second of the design and of the link.

    python benchmarks/boards/run.py ulx3s-85f icebreaker-up5k    boards by name; each takes minutes
    python benchmarks/boards/run.py --model cnn --multipliers 9 --clock 80 ulx3s-85f
    python benchmarks/boards/run.py    only writes table.md again, with the link's images/s by the present protocol

Models: int8_mlp is that of examples/digits, digits_cnn a convolution and a layer trained on the same images and
quantized, cnn that of the benchmark table (8x8 images, two convolutions, random weights), sd and wide MLPs with the
larger matrices in the SDRAM of the board; their images per second are those at the clock. Rows that were measured
are replaced in table.json, and table.md is written from it. The clock is that of the bitstream, Fmax
what place and route reached for it; with --clock there is one run, which aims at this clock.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from tinygrad import Tensor

import tg2hdl
from tg2hdl.bench import json_text, markdown_table
from tg2hdl.device_folder import register_map
from tg2hdl.model_file import load_model_file
from tg2hdl.python_file import run_file
from tg2hdl_host import Description, protocol

HERE = Path(__file__).parent
TABLE = HERE / "table.json"
MODELS = ("int8_mlp", "float_mlp", "digits_cnn", "cnn", "sd", "wide")
sys.path.insert(0, str(HERE.parent))


ON_CHIP = {"sd": 45_000, "wide": 200_000}
"""Bits on the chip of the models with weights outside."""


def model_named(name: str) -> tuple[Any, Any]:
    if name in ON_CHIP:
        layers = mlp(1, 8, 64, 96, 10) if name == "sd" else mlp(5, 9, 256, 512, 256, 10)
        return layers, (np.zeros((1, 64 if name == "sd" else 256), np.int8),)
    if name == "cnn":
        from workloads import WORKLOADS

        (workload,) = (w for w in WORKLOADS if w.name == "cnn int8")
        return workload.model(), workload.inputs(np.random.default_rng(0))
    if name == "digits_cnn":
        return digits_cnn()
    file = load_model_file(str(HERE.parents[1] / "examples" / "digits" / f"{name}.py"))
    return file.model, file.example_inputs


@functools.cache
def digits_cnn() -> tuple[Any, Any]:
    """A convolution of eight channels and a layer of ten, trained with seeds and quantized."""
    folder = HERE.parents[1] / "examples"
    models = run_file(folder / "mnist" / "models.py")
    images, labels, test, test_labels = run_file(folder / "digits" / "dataset.py").load_split()
    x, y = ((pixels / np.float32(16)).reshape(-1, 1, 8, 8) for pixels in (images, test))
    rng = np.random.default_rng(0)
    layers = [models.Conv(1, 8, 3, 1, rng), models.ReLU(), models.MaxPool(), models.Flatten()]
    layers.append(models.Dense(128, 10, rng))
    models.train(layers, x, labels, epochs=80)
    quantized = tg2hdl.quantize(models.Classifier(layers), x[::7])
    right = [
        np.argmax(quantized.reference(*quantized.quantize_input(each[None]))) for each in y
    ] == test_labels
    print(f"digits_cnn: {right.mean():.1%} of {len(y)} test images")
    return quantized, (x[:1],)


def mlp(seed: int, shift: int, *sizes: int) -> Any:
    """Layers of int8 with random weights; all sums but the last are divided by a power of two."""
    rng = np.random.default_rng(seed)
    weights = [Tensor(rng.integers(-128, 128, pair).astype(np.int8)) for pair in pairwise(sizes)]

    def model(x: Tensor) -> Tensor:
        for weight in weights[:-1]:
            x = ((x.cast("int32") @ weight.cast("int32")).relu() >> shift).clip(0, 127).cast("int8")
        return x.cast("int32") @ weights[-1].cast("int32")

    return model


def compiled(name: str, multipliers: int) -> tg2hdl.Accelerator:
    model, inputs = model_named(name)
    outside: dict[str, Any] = {}
    if name in ON_CHIP:
        outside = {"weights": "external", "memory_port": "sdram", "target": "ecp5"}
        outside["on_chip_bits"] = ON_CHIP[name]
    options = tg2hdl.CompileOptions(ports=("uart",), multipliers=multipliers, **outside)
    return tg2hdl.compile(model, *inputs, options=options, name=name)


def row(name: str, board: str, multipliers: int, clock: float | None) -> dict[str, object]:
    accelerator = compiled(name, multipliers)
    with tempfile.TemporaryDirectory() as folder:
        accelerator.build(
            folder, board=board, clock=clock, vectors=1, progress=lambda t: print(t, flush=True)
        )
        facts = json.loads((Path(folder) / "device.json").read_text())
    used = {
        kind: sum(part[kind] for part in facts["by_part"].values()) for kind in ("LUT", "FF", "DSP", "RAM")
    }
    cycles = accelerator.predicted_cycles
    # A design that counts the times of a memory runs at the clock of the memory.
    reaches = round(facts["clock_mhz" if accelerator.design.streams_weights else "fmax_mhz"], 1)
    design, link = round(reaches * 1e6 / cycles), facts["baud"] / 10 // link_bytes(facts)
    return {
        "model": name,
        "board": board,
        "multipliers": multipliers,
        "cycles": cycles,
        "clock MHz": round(facts["clock_mhz"], 1),
        "Fmax MHz": round(facts["fmax_mhz"], 1),
        **used,
        "LUT of the port": facts["by_part"]["port uart"]["LUT"],
        "images/s at Fmax": design,
        "baud": facts["baud"],
        "images/s, link": int(min(design, link)),
    }


def link_bytes(facts: dict[str, Any]) -> int:
    """Bytes for each image in the direction that has more of them."""
    description = Description.parse(json.dumps(facts).encode(), facts)
    if description.packet_run:
        data = next(bytes(-(-b.size // 4) * 4) for b in description.buffers.values() if b.role == "input")
        request = protocol.run(0, data, description.buffers[description.outputs[0]].size)
        return max(len(request.encode(0)), 9 + 4 * request.answer)
    requests = protocol.write(0, bytes(4), "start")
    for buffer in description.buffers.values():
        requests += protocol.write(0, bytes(buffer.size), "") if buffer.role == "input" else []
    for name in description.outputs:
        requests += protocol.read(0, description.buffers[name].size, "")
    sent = sum(len(request.encode(0)) for request in requests)
    received = sum(9 + 4 * request.answer for request in requests)
    return max(sent, received)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("boards", nargs="*")
    parser.add_argument("--model", default="int8_mlp", choices=MODELS)
    parser.add_argument("--multipliers", type=int, default=1)
    parser.add_argument("--clock", type=float, help="MHz; one run of place and route instead of up to four")
    given = parser.parse_args()
    for board in given.boards:
        new = row(given.model, board, given.multipliers, given.clock)
        key = ("model", "board", "multipliers")
        # Read again: other boards may have been added meanwhile.
        rows = json.loads(TABLE.read_text()) if TABLE.is_file() else []
        rows = [r for r in rows if any(r[k] != new[k] for k in key)] + [new]
        TABLE.write_text(json_text(rows))
    rows = json.loads(TABLE.read_text())
    keys = {(r["model"], r["multipliers"]) for r in rows}
    sizes = {key: link_bytes(register_map(compiled(*key)).to_dict()) for key in keys}
    for r in rows:
        link = r["baud"] // 10 // sizes[r["model"], r["multipliers"]]
        r["images/s, link"] = int(min(r["images/s at Fmax"], link))
    TABLE.write_text(json_text(rows))
    lines = markdown_table(list(rows[0]), ([r[name] for name in rows[0]] for r in rows))
    (HERE / "table.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
