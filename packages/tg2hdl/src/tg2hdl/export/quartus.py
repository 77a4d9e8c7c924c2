"""Quartus: a component of Platform Designer, and a project that compiles the core by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tg2hdl.export.interfaces import INTERFACES
from tg2hdl.export.wrapper import CLOCK, RESET

if TYPE_CHECKING:
    from tg2hdl.export.export import Export

__all__ = ["files"]

_COMPONENT = """\
# Component of Platform Designer: add this folder to the IP search path.
package require -exact qsys 16.1

set_module_property NAME {name}
set_module_property DISPLAY_NAME {name}
set_module_property DESCRIPTION "tg2hdl design of {cycles} clock cycles"
set_module_property VERSION 1.0
set_module_property GROUP tg2hdl
set_module_property EDITABLE false

{filesets}
add_interface clock clock end
add_interface_port clock {clock} clk Input 1
add_interface reset reset end
set_interface_property reset associatedClock clock
set_interface_property reset synchronousEdges BOTH
add_interface_port reset {reset} reset_n Input 1
{interfaces}"""

_PROJECT = """\
# Compiles {name} by itself, with virtual pins: quartus_sh --flow compile {name}
set_global_assignment -name FAMILY "Cyclone V"
set_global_assignment -name DEVICE 5CSEMA5F31C6
set_global_assignment -name TOP_LEVEL_ENTITY {name}
set_global_assignment -name PROJECT_OUTPUT_DIRECTORY output_files
{sources}
set_global_assignment -name SDC_FILE constraints/{name}.sdc
set_instance_assignment -name VIRTUAL_PIN ON -to *
set_instance_assignment -name VIRTUAL_PIN OFF -to {clock}
"""


def files(export: Export) -> dict[str, str]:
    """``NAME_hw.tcl``, ``NAME.qsf`` and ``NAME.qpf``."""
    name = export.name
    sources = [f"set_global_assignment -name VERILOG_FILE {path}" for path in export.verilog_files]
    if export.memory_contents:
        sources.append("set_global_assignment -name SEARCH_PATH rtl")
    component = _COMPONENT.format(
        name=name,
        cycles=export.accelerator.predicted_cycles,
        clock=CLOCK,
        reset=RESET,
        filesets="".join(_fileset(export, kind) for kind in ("QUARTUS_SYNTH", "SIM_VERILOG")),
        interfaces="".join(_interfaces(export)),
    )
    return {
        f"{name}_hw.tcl": component,
        f"{name}.qsf": _PROJECT.format(name=name, sources="\n".join(sources), clock=CLOCK),
        f"{name}.qpf": f'PROJECT_REVISION = "{name}"\n',
    }


def _fileset(export: Export, kind: str) -> str:
    label = kind.lower()
    core, wrapper = export.verilog_files
    lines = [
        f"add_fileset {label} {kind} {{}} {{}}",
        f"set_fileset_property {label} TOP_LEVEL {export.name}",
        f"add_fileset_file {core.rpartition('/')[2]} VERILOG PATH {core}",
        f"add_fileset_file {wrapper.rpartition('/')[2]} VERILOG PATH {wrapper} TOP_LEVEL_FILE",
    ]
    lines += [f"add_fileset_file {p.rpartition('/')[2]} OTHER PATH {p}" for p in export.memory_contents]
    return "\n".join([*lines, "", ""])


def _interfaces(export: Export) -> list[str]:
    """Interfaces besides clock and reset; a group of no known type is a conduit."""
    lines = []
    bus = next((p.group for p in export.ports if p.group == "s_axil"), None)
    for group in dict.fromkeys(port.group for port in export.ports):
        ports = [port for port in export.ports if port.group == group]
        known = INTERFACES.get(group)
        if group == "irq":
            lines.append("add_interface irq interrupt end\n")
            if bus is not None:
                lines.append(f"set_interface_property irq associatedAddressablePoint {bus}\n")
        else:
            kind = "conduit" if known is None else known.platform_designer
            lines.append(f"add_interface {group} {kind} {'start' if known and known.is_master else 'end'}\n")
        lines.append(f"set_interface_property {group} associatedClock clock\n")
        lines.append(f"set_interface_property {group} associatedReset reset\n")
        for port in ports:
            direction = "Input" if port.is_input else "Output"
            role = port.signal or port.name
            lines.append(f"add_interface_port {group} {port.name} {role} {direction} {port.width}\n")
    return lines
