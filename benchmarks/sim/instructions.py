"""Machine instructions of a clock edge in levelized models, by kind: ``python benchmarks/sim/instructions.py``.

Almost all of them run in every cycle, and the processor retires four to six in each of its own, so that their number
is what limits one input.  Needs objdump.  Writes ``instructions.json`` beside this file.
"""

import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from designs import DESIGNS, WORKLOADS

import tg2hdl
from tg2hdl.bench import json_text
from tg2hdl_sim import SimulationModel
from tg2hdl_sim.compiler import find_compiler, shared_command
from tg2hdl_sim.levelized import emit, engine
from tg2hdl_sim.sources import source

KINDS = {
    "moves": r"v?p?mov|lea|push|pop|v?p(insr|extr)|vpunpck|vpshuf|vpack",
    "selections": r"cmov|set|test|cmp|j|v?pcmp|vpternlog|v?pblend|kmov",
    "arithmetic and logic": r"v?p?(add|sub|and|or|xor|sra|srl|sll|mul)|i?mul|sh|sar|neg|not|inc|dec|sbb|bt",
}


def kind(instruction: str) -> str:
    """Class of a machine instruction."""
    return next((name for name, pattern in KINDS.items() if re.match(pattern, instruction)), "other")


def main() -> None:
    """Count, and write the result."""
    emit.MOST_LOCAL = 0  # otherwise the function has two edges, and the check that ends a run
    found = {}
    for name in ("MLP x1", "MLP x16", "CNN x36"):
        workload, multipliers, *_ = DESIGNS[name]
        (case,) = [w for w in WORKLOADS if w.name == workload]
        inputs = case.inputs(np.random.default_rng(0))
        accelerator = tg2hdl.compile(case.model(), *inputs, multipliers=multipliers)
        code = engine.generate(SimulationModel(accelerator.top).elaboration)
        with tempfile.TemporaryDirectory() as folder:
            for header in ("levelized.h", "levelized_interface.h"):
                (Path(folder) / header).write_text(source(header))
            (Path(folder) / "model.c").write_text(code)
            command = shared_command(find_compiler(), ["model.c"], "model.so", base=engine.FLAGS)
            subprocess.run(command, cwd=folder, check=True)
            dump = ["objdump", "-d", "--no-show-raw-insn", "model.so"]
            text = subprocess.run(dump, cwd=folder, check=True, capture_output=True, text=True).stdout
        body = text.split("<one_edge>:\n")[1].split("\n\n")[0]
        counts = Counter(kind(line.split("\t")[1].split()[0]) for line in body.splitlines())
        statements = {
            "registers stored": len(re.findall(r"^s->q\d+ = ", code, re.MULTILINE)),
            "registers copied": len(re.findall(r"^s->q\d+ = s->q\d+;$", code, re.MULTILINE)),
            "multiplexers": len(re.findall(r" \? ", code)),
            "loops over lanes": len(re.findall(r"i \+= VECTOR", code)),
        }
        found[name] = {"instructions": counts.total(), **dict(counts.most_common()), "C": statements}
        print(name, found[name], flush=True)
    Path(__file__).with_suffix(".json").write_text(json_text(found))


if __name__ == "__main__":
    main()
