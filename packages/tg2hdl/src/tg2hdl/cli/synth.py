"""``tg2hdl synth``: Fmax, utilization and critical path of a model on an FPGA."""

from __future__ import annotations

from typing import Any

import click

from tg2hdl.cli.common import ModelCommand, compile_file, stage, with_model_options, with_workers
from tg2hdl.cli.families import PART, part_for
from tg2hdl.cli.output import consoles, with_json, write_json
from tg2hdl.netlist_check import check_netlist
from tg2hdl.random_inputs import random_inputs
from tg2hdl_ir import Tg2hdlError
from tg2hdl_ir.workers import Workers

__all__ = ["synth"]

_EPILOG = """\b
Examples:
  tg2hdl synth model.py                              an ECP5-45k, median of three place-and-route runs
  tg2hdl synth model.py:net --multipliers 16 --part ecp5-85k --seeds 1
  tg2hdl synth model.py --seeds 32 --cluster tcp://host:8786    seeds on the workers of a Dask cluster
  tg2hdl synth model.py --check-netlist --vectors 3  simulate the netlist and compare bits
"""


@click.command(cls=ModelCommand, epilog=_EPILOG)
@with_model_options
@click.option(
    "--part",
    type=PART,
    help="FPGA part; `tg2hdl plugins list` has all.  [default: ecp5-45k, or the first of --family]",
)
@click.option("--speed", default=6, show_default=True, help="Speed grade, where the family has some.")
@click.option(
    "--seeds",
    type=click.IntRange(0),
    default=3,
    show_default=True,
    help="Place-and-route runs; 0 for the cells only.",
)
@click.option("--pack-registers", is_flag=True, help="Move registers into block RAMs and multipliers (ECP5).")
@click.option("--check-netlist", "check", is_flag=True, help="Simulate the netlist against the golden model.")
@click.option(
    "--vectors",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Random inputs for --check-netlist.",
)
@with_workers
@with_json
def synth(
    part: str | None,
    speed: int,
    seeds: int,
    pack_registers: bool,
    check: bool,
    vectors: int,
    workers: int,
    cluster: str | None,
    json_file: str | None,
    **model_options: Any,
) -> None:
    """Synthesize, place and route a model, without pins.

    Prints Fmax, cells by kernel and kind, the critical path by operation, and the estimate before synthesis. Repeated
    runs come from a cache.
    """
    console, progress = consoles(json_file)
    part = part_for(model_options["family"], part)
    with stage(progress, f"compiling {model_options['model']}"):
        _, _, accelerator = compile_file(**model_options, part=part)
    packing: dict[str, Any] = {"pack_registers": True} if pack_registers else {}
    try:
        with (
            stage(progress, f"synthesizing {accelerator.name} for {part}") as report,
            Workers(workers, cluster, report) as pool,
        ):
            result = accelerator.synthesize(
                part,
                speed,
                seeds,
                place=seeds > 0,
                progress=report,
                workers=pool,
                **packing,
            )
    except Tg2hdlError as error:
        partial = getattr(error, "partial", None)
        if partial is not None:
            console.print(partial.format(console.width), highlight=False, markup=False)
        raise
    console.print(result.format(console.width), highlight=False, markup=False)
    if result.fmax:
        microseconds = accelerator.predicted_cycles / result.fmax
        console.print(
            f"{accelerator.predicted_cycles:,} cycles: {microseconds:,.1f} us per result", highlight=False
        )
    write_json(json_file, result.to_dict())
    if check:
        with stage(progress, "simulating the netlist") as report:
            inputs_of_vectors = [random_inputs(accelerator.captured.inputs, seed) for seed in range(vectors)]
            cycles = check_netlist(accelerator, result, inputs_of_vectors, report)
        console.print(
            f"netlist: every bit of {vectors} results equals the golden model, {cycles:,} cycles each",
            highlight=False,
        )
