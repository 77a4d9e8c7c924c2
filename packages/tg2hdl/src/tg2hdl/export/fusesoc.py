"""FuseSoC: a core file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tg2hdl.export.export import Export

__all__ = ["files"]

_CORE = """\
CAPI=2:
name: "::{name}:1.0.0"
description: "tg2hdl design of {cycles} clock cycles"

filesets:
  rtl:
    files:
{sources}
    file_type: verilogSource
{memories}\
  vivado_constraints:
    files: [{{constraints/{name}.xdc: {{file_type: xdc}}}}]
  quartus_constraints:
    files: [{{constraints/{name}.sdc: {{file_type: SDC}}}}]
{testbench}
targets:
  default: &default
    filesets: [rtl{memory}, "tool_vivado ? (vivado_constraints)", "tool_quartus ? (quartus_constraints)"]
    toplevel: {name}
  lint:
    <<: *default
    flow: lint
    flow_options:
      tool: verilator
      verilator_options: [-Wall]
{simulation}"""

_TESTBENCH = """\
  testbench:
    files: [{path}]
    file_type: verilogSource-2005
"""

_SIMULATION = """\
  sim:
    <<: *default
    flow: sim
    flow_options:
      tool: icarus
      iverilog_options: [-g2012]
    filesets: [rtl{memory}, testbench]
    toplevel: {name}_tb
"""


def files(export: Export) -> dict[str, str]:
    """``NAME.core`` with the targets ``default``, ``lint`` and ``sim``."""
    name, contents = export.name, export.memory_contents
    rows = [f"      - {path}: {{file_type: user, copyto: {path.rpartition('/')[2]}}}\n" for path in contents]
    memory = ", memory" if contents else ""
    bench = export.testbench
    text = _CORE.format(
        name=name,
        cycles=export.accelerator.predicted_cycles,
        sources="\n".join(f"      - {path}" for path in export.verilog_files),
        memories="  memory:\n    files:\n" + "".join(rows) if rows else "",
        memory=memory,
        testbench="" if bench is None else _TESTBENCH.format(path=bench),
        simulation="" if bench is None else _SIMULATION.format(name=name, memory=memory),
    )
    return {f"{name}.core": text}
