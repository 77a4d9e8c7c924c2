"""``tg2hdl compile``: a model file to Verilog, RTLIL and a plan."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click
import numpy as np

from tg2hdl.accelerator import Accelerator
from tg2hdl.cli.common import (
    ModelCommand,
    compile_file,
    kernel_table,
    output_folder,
    say_fit,
    say_float,
    stage,
    with_model_options,
)
from tg2hdl.cli.families import PART
from tg2hdl.cli.output import check_folder, consoles, with_json, write_json
from tg2hdl.cli.passes import watched_passes, with_pass_options
from tg2hdl.model_tensor import ModelTensor
from tg2hdl.results import labels_of
from tg2hdl.testbench import check_testbenches, write_testbenches
from tg2hdl_ir import CapacityError, ToolMissingError
from tg2hdl_ir.files import write_files
from tg2hdl_top.ports import PortPlan

__all__ = ["compile_command"]

_EPILOG = """\b
Examples:
  tg2hdl compile model.py                        the object `model`, shapes from `example_inputs`
  tg2hdl compile model.py:net --input int8:1x784 another name, and a shape
  tg2hdl compile net.onnx --batch 1              an ONNX file with a symbolic batch
  tg2hdl compile model.py --multipliers 16 --weights loadable -o build/fast
  tg2hdl compile model.py --testbench            and testbenches that check the Verilog elsewhere
  tg2hdl compile model.py --weights external --part ecp5-45k    weights that do not fit are streamed
  tg2hdl compile model.py --print-changes        which passes changed which kernel
"""


@click.command("compile", cls=ModelCommand, epilog=_EPILOG)
@with_model_options
@with_pass_options
@click.option("-o", "--output", metavar="FOLDER", help="Where to write.  [default: build/NAME]")
@click.option("--part", type=PART, help="FPGA part: say whether the design fits, before anything is written.")
@click.option(
    "--memory-files", is_flag=True, help="Write memory contents as .hex files, read with $readmemh."
)
@click.option("--testbench", is_flag=True, help="Write self-checking testbenches next to the Verilog.")
@with_json
def compile_command(
    output: str | None,
    part: str | None,
    memory_files: bool,
    testbench: bool,
    verify_each: bool,
    print_after: tuple[str, ...],
    print_changes: bool,
    json_file: str | None,
    **model_options: Any,
) -> None:
    """Compile a model to Verilog and RTLIL.

    FILE is a Python file that defines NAME (`model` unless given): a function of tinygrad Tensors, or an
    object with __call__; or it is an ONNX file, or one that a plugin reads. Writes Verilog, RTLIL, the plan as
    text and as JSON, and prints the cycles of each kernel. Verilog needs Yosys: pip install "tg2hdl[verilog]".
    """
    console, progress = consoles(json_file)
    if output is not None:
        check_folder(output)
    watched = watched_passes(verify_each, print_after, print_changes)
    with stage(progress, f"compiling {model_options['model']}"), watched:
        file, _, accelerator = compile_file(**model_options, part=part)
        if testbench:
            check_testbenches(accelerator)
    console.print(kernel_table(accelerator, file.label))
    for line in dict.fromkeys(f"{k.name}: {note}" for k in accelerator.kernels for note in k.notes):
        console.print(line, highlight=False)
    say_fit(console, accelerator, model_options["fit"])
    say_float(console, accelerator)
    external = accelerator.design.external
    for note in () if external is None else external.notes:
        console.print(note, highlight=False)
    console.print(_memory_line(accelerator), highlight=False)
    console.print(accelerator.design.validation.format(), highlight=False, markup=False)
    if part is not None:
        with stage(progress, f"estimating for {part}"):
            fit = accelerator.fits(part)
        console.print(str(fit), highlight=False, markup=False)
        if not fit:
            raise CapacityError(f"the design does not fit {part}", notes=fit.lines, hint=fit.hint)
    folder = output_folder(output, file.label)
    summary = _summary(accelerator)
    with stage(progress, "writing"):
        texts = {
            "il": accelerator.rtlil(),
            "plan": accelerator.plan() + "\n",
            "json": json.dumps(summary, indent=2) + "\n",
        }
        written = write_files(folder, {f"{file.label}.{suffix}": text for suffix, text in texts.items()})
        if accelerator.design.streams_weights:
            written.append(folder / f"{file.label}.weights.img")
            accelerator.save_memory_image(written[-1])
        missing = ""
        try:
            verilog = folder / f"{file.label}.v"
            accelerator.verilog(verilog, memories=folder if memory_files else None)
            written.insert(0, verilog)
        except ToolMissingError as error:
            if testbench or memory_files:
                raise
            missing = f"no Verilog, which needs Yosys: {error.hint}"
        written += write_testbenches(accelerator, folder, file.label) if testbench else []
    for path in written:
        console.print(f"wrote {path}", highlight=False)
    if missing:
        console.print(missing, highlight=False, markup=False, soft_wrap=True)
    write_json(json_file, summary)


def _memory_line(accelerator: Accelerator) -> str:
    """Bits of all memories, by role."""
    bits = accelerator.memory.bits
    parts = ", ".join(f"{role} {count:,}" for role, count in bits.items())
    return f"memory: {sum(bits.values()):,} bits ({parts})"


def _summary(accelerator: Accelerator) -> dict[str, object]:
    return {
        "name": accelerator.name,
        "predicted_cycles": accelerator.predicted_cycles,
        "inputs": [_tensor(s) for s in accelerator.inputs],
        "outputs": [_tensor(s) | _labels(accelerator, s.name) for s in accelerator.outputs],
        "in_float": list(accelerator.in_float),
        "ports": _ports(accelerator),
        "host_ports": [_host_port(port) for port in accelerator.design.ports],
        **accelerator.memory.describe(),
        "validation": accelerator.design.validation.describe(),
        "kernels": [asdict(k) | {"ratio": k.ratio} for k in accelerator.kernels],
    }


def _labels(accelerator: Accelerator, output: str) -> dict[str, list[str]]:
    """Strings that belong to an output, where the file has them."""
    labels = labels_of(accelerator.captured.model, output)
    return {"labels": list(labels)} if labels else {}


def _ports(accelerator: Accelerator) -> dict[str, dict[str, object]]:
    """Direction and width (bits) of every port of the top module."""
    from amaranth.hdl import Shape

    top = accelerator.top
    clock = {"clk": {"direction": "in", "width": 1}, "rst": {"direction": "in", "width": 1}}
    return clock | {
        "__".join(map(str, path)): {
            "direction": member.flow.name.lower(),
            "width": Shape.cast(member.shape).width,
        }
        for path, member, _ in top.signature.flatten(top)
    }


def _host_port(port: PortPlan) -> dict[str, object]:
    """The buffers that a host port serves, and the contents of its packets where it has some."""
    buffers = port.serves.buffers
    return {
        "kind": port.kind,
        "control": port.serves.control,
        "writes": [b.title for b in buffers if b.writes],
        "reads": [b.title for b in buffers if b.reads],
        **port.describe(),
    }


def _tensor(spec: ModelTensor) -> dict[str, object]:
    """An input or output of the hardware; `value` describes the numbers that its codes stand for."""
    found: dict[str, object] = {"name": spec.name, "shape": list(spec.shape), "dtype": str(spec.code_dtype)}
    if spec.is_quantized:
        scales = {"scale": np.asarray(spec.scale).tolist(), "offset": np.asarray(spec.offset).tolist()}
        found["value"] = {"dtype": str(spec.dtype), "zero_point": spec.zero_point, **scales}
    return found
