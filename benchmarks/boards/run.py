"""Bitstreams of the digits models for boards: clock, utilization, images per second of the design and of the link.

    python benchmarks/boards/run.py ulx3s-85f icebreaker-up5k    boards by name; each takes minutes
    python benchmarks/boards/run.py --model int8_cnn --multipliers 16 --clock 100 ulx3s-85f

Rows of the boards that ran are replaced in table.json, and table.md is written from it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import tg2hdl
from tg2hdl.model_file import load_model_file

HERE = Path(__file__).parent
TABLE = HERE / "table.json"
FRAME = 13 + 17 + 13  # bytes of the requests to write, start and read, without the input


def row(model: str, board: str, multipliers: int, clock: float | None) -> dict[str, object]:
    file = load_model_file(str(HERE.parents[1] / "examples" / "digits" / f"{model}.py"))
    options = tg2hdl.CompileOptions(ports=("uart",), multipliers=multipliers)
    accelerator = tg2hdl.compile(file.model, *file.example_inputs, options=options, name=model)
    with tempfile.TemporaryDirectory() as folder:
        accelerator.build(folder, board=board, clock=clock, vectors=1, progress=print)
        facts = json.loads((Path(folder) / "device.json").read_text())
    used = {
        kind: sum(part[kind] for part in facts["by_part"].values()) for kind in ("LUT", "FF", "DSP", "RAM")
    }
    port = facts["by_part"]["port uart"]
    size = sum(spec.dtype.numpy().itemsize * 64 for spec in accelerator.captured.inputs)
    cycles = accelerator.predicted_cycles
    return {
        "model": model,
        "board": board,
        "cycles": cycles,
        "clock MHz": round(facts["clock_mhz"], 1),
        "reaches MHz": round(facts["fmax_mhz"], 1),
        "LUT": used["LUT"],
        "of them bridge": port["LUT"],
        "FF": used["FF"],
        "RAM": used["RAM"],
        "multipliers": used["DSP"],
        "images/s, design": round(facts["clock_mhz"] * 1e6 / cycles),
        "baud": facts["baud"],
        "images/s, link at most": round(facts["baud"] / 10 / (size + FRAME)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("boards", nargs="+")
    parser.add_argument("--model", default="int8_mlp")
    parser.add_argument("--multipliers", type=int, default=1)
    parser.add_argument("--clock", type=float, help="MHz; one run of place and route instead of up to four")
    given = parser.parse_args()
    rows = {(r["model"], r["board"]): r for r in (json.loads(TABLE.read_text()) if TABLE.is_file() else [])}
    for board in given.boards:
        rows[given.model, board] = row(given.model, board, given.multipliers, given.clock)
        found = list(rows.values())
        TABLE.write_text(json.dumps(found, indent=1) + "\n")
        names = list(found[0])
        lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
        lines += ["| " + " | ".join(str(r[n]) for n in names) + " |" for r in found]
        (HERE / "table.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
