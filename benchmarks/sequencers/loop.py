"""Loops on the chip: results of the golden model, two engines and the netlist, predicted cycles, and what a loop takes.

    python benchmarks/sequencers/loop.py [--results 200] [--no-netlist]

writes loop.json and loop.md beside this file. The golden model starts each run by itself; engines and netlist run the
loop. The netlist is that of an ECP5, and its size is compared with that of the design without a loop.
"""

from __future__ import annotations

import argparse
import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
from tinygrad import Tensor, Variable

import tg2hdl
from tg2hdl.bench import versions
from tg2hdl_backend.runner import Runner

HERE = Path(__file__).parent
RNG = np.random.default_rng(48)
PART = "ecp5-25k"


class Tokens:
    """A token by a table of the token and the position, and of a sum of all tokens before."""

    example = np.array([3], np.int32)
    variables = (Variable("pos", 0, 255),)

    def __init__(self) -> None:
        self.total = Tensor.zeros(1, dtype="int32").contiguous().realize()
        self.table = Tensor(RNG.integers(0, 64, (64, 256)).astype(np.int32))

    def __call__(self, token: Tensor, pos: Any) -> Tensor:
        self.total.assign((self.total + token) & 0xFFFF).realize()
        return (self.table[token[0], pos] + self.total) % 64


class Wave:
    """A recurrent net of 24 hidden values whose output of 12 elements is its next input."""

    example = np.arange(12, dtype=np.int8)[None]
    variables = ()

    def __init__(self) -> None:
        sizes = ((12, 24), (24, 24), (24, 12))
        self.entry, self.back, self.out = (Tensor(RNG.integers(-9, 10, s).astype(np.int32)) for s in sizes)
        self.h = Tensor.zeros(1, 24, dtype="int32").contiguous().realize()

    def __call__(self, x: Tensor) -> Tensor:
        h = ((x.cast("int32") @ self.entry + self.h @ self.back) >> 4).clip(-127, 127).contiguous()
        self.h.assign(h).realize()
        return ((h @ self.out) >> 4).clip(-128, 127).cast("int8")


class Oscillator:
    """Two float32 values that turn and are kept at length one."""

    example = np.array([1, 0], np.float32)
    variables = ()

    def __init__(self) -> None:
        turn = np.array([[0.8, 0.6], [-0.6, 0.8]], np.float32)
        self.turn = Tensor(turn)

    def __call__(self, x: Tensor) -> Tensor:
        return x @ self.turn


MODELS = (Tokens, Wave, Oscillator)


def compiled(model: Any, loop: bool) -> tg2hdl.Accelerator:
    """The design, with or without a loop."""
    options = tg2hdl.CompileOptions(multipliers=4, loop=loop)
    bound = [v.bind(0) for v in model.variables]
    return tg2hdl.compile(model(), model.example, *bound, options=options, name=model.__name__.lower())


def measure(model: Any, results: int, netlist: bool) -> dict[str, Any]:
    """Results and cycles of a loop, by all means."""
    design = compiled(model, True)
    loop = design.design.loop
    assert loop is not None, "compiled with one"
    expected = list(design.generate(model.example, limit=results, engine="golden"))
    row: dict[str, Any] = {"results": len(expected), "gap": loop.gap, "run": design.design.longest_cycles()}
    for engine in ("amaranth", "levelized"):
        with design.session(engine) as session:
            found = list(session.generate(model.example, limit=results))
            row[engine] = sum(map(np.array_equal, found, expected))
            row["cycles"] = session.loop_cycles  # compared with the prediction by each start
    if netlist:
        from tg2hdl_synth import synthesize
        from tg2hdl_synth.netlist_simulation import open_netlist

        made = {
            with_loop: synthesize(compiled(model, with_loop).top, PART, seeds=1)
            for with_loop in (False, True)
        }
        row["cells"], row["cells_without"] = made[True].cells, made[False].cells
        first = {v.expr: 0 for v in model.variables}
        with open_netlist(made[True], lambda message: None) as simulation:
            runner = Runner(design.design, simulation=simulation)
            some, cycles = runner.generate(design.bind(model.example), first, min(results, loop.most))
        row["netlist"] = sum(np.array_equal(a, np.ravel(b)) for a, b in zip(some, expected, strict=False))
        row["netlist_results"] = len(some)
        assert cycles == design.design.loop_cycles(len(some), first), "the netlist takes other cycles"
    return row


def table(record: dict[str, Any]) -> str:
    """The record as Markdown."""
    lines = [
        "# Loops on the chip",
        "",
        f"`python benchmarks/sequencers/loop.py`, {record['date']}, "
        f"{', '.join(f'{k} {v}' for k, v in record['versions'].items())}. Results that equal those of the golden model "
        "in every bit; each start takes the predicted cycles.",
        "",
        "| model | cycles of a run | of the loop | results | amaranth | levelized | netlist | LUTs, flip-flops more |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in record["models"].items():
        netlist, more = "-", "-"
        if "netlist" in row:
            netlist = f"{row['netlist']} of {row['netlist_results']}"
            more = ", ".join(str(row["cells"][k] - row["cells_without"][k]) for k in ("comb", "ff"))
        lines.append(
            f"| {name} | {row['run']:,} | {row['gap']} | {row['results']} | {row['amaranth']} | {row['levelized']} | "
            f"{netlist} | {more} |"
        )
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure, and write the files."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--results", type=int, default=200)
    parser.add_argument("--no-netlist", action="store_true")
    given = parser.parse_args()
    rows = {model.__name__: measure(model, given.results, not given.no_netlist) for model in MODELS}
    record = {"date": datetime.date.today().isoformat(), "versions": versions(), "models": rows}
    (HERE / "loop.json").write_text(json.dumps(record, indent=1) + "\n")
    (HERE / "loop.md").write_text(table(record))
    print(table(record))


if __name__ == "__main__":
    main()
