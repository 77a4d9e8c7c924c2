"""``tg2hdl export``: a model to a folder for a system of others."""

from __future__ import annotations

from typing import Any

import click

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
from tg2hdl.cli.families import completes
from tg2hdl.cli.output import check_folder, consoles, with_json, write_json
from tg2hdl.export import export_name, export_ports

__all__ = ["export"]

_EPILOG = """\b
Examples:
  tg2hdl export model.py --for fusesoc -o net      then: fusesoc --cores-root net run --target sim net
  tg2hdl export net.onnx --for litex --name net -o net
  tg2hdl export model.py --for vivado --port axi-stream --clock 200 -o net
"""


@click.command("export", cls=ModelCommand, epilog=_EPILOG)
@with_model_options
@click.option(
    "--for",
    "system",
    metavar="SYSTEM",
    required=True,
    shell_complete=completes("tg2hdl_exports"),
    help="System; `tg2hdl plugins list --kind export` shows them: litex, fusesoc, vivado, quartus, amaranth-soc.",
)
@click.option("-o", "--output", metavar="DIR", help="Where to write.  [default: build/NAME]")
@click.option(
    "--name",
    help="Prefix of the names of all modules, files and C functions.  [default: that of the model]",
)
@click.option("--clock", type=float, default=100.0, show_default=True, help="MHz, for the constraints.")
@click.option(
    "--memory-files", is_flag=True, help="Write memory contents as .hex files, read with $readmemh."
)
@with_json
def export(
    system: str,
    output: str | None,
    name: str | None,
    clock: float,
    memory_files: bool,
    json_file: str | None,
    **model_options: Any,
) -> None:
    """Export a model as a core for LiteX, FuseSoC, Vivado, Quartus or amaranth-soc.

    Writes Verilog with a wrapper of standard names (aclk, aresetn, s_axil_awvalid), the register map, a C driver,
    weights, constraints, a testbench, and the files of the system. Needs Yosys: pip install "tg2hdl[verilog]".
    """
    console, progress = consoles(json_file)
    usual = export_ports(system)[0]
    if name is not None:
        export_name(name, "")
    if output is not None:
        check_folder(output)
    model_options["ports"] = model_options["ports"] or (usual,)
    with stage(progress, f"compiling {model_options['model']}"):
        file, _, accelerator = compile_file(**model_options)
    console.print(kernel_table(accelerator, file.label))
    say_fit(console, accelerator, model_options["fit"])
    say_float(console, accelerator)
    folder = output_folder(output, export_name(name, file.label))
    with stage(progress, f"writing for {system}"):
        paths = accelerator.export(system, folder, name=name, clock=clock, memory_files=memory_files)
    names = sorted(str(path.relative_to(folder)) for path in paths)
    for line in names:
        console.print(f"wrote {folder / line}", highlight=False, soft_wrap=True)
    write_json(
        json_file,
        {
            "folder": str(folder),
            "system": system,
            "name": export_name(name, file.label),
            "ports": list(model_options["ports"]),
            "files": names,
            "predicted_cycles": accelerator.predicted_cycles,
        },
    )
