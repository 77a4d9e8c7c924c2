"""Vivado: the folder is an IP repository, and a script synthesizes the core by itself."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tg2hdl.export.interfaces import INTERFACES, Interface, WrapperPort
from tg2hdl.export.wrapper import CLOCK, RESET

if TYPE_CHECKING:
    from tg2hdl.export.export import Export

__all__ = ["files"]

_SPIRIT = "http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009"
_XILINX = "http://www.xilinx.com"
_FAMILIES = (
    "artix7",
    "kintex7",
    "virtex7",
    "zynq",
    "spartan7",
    "artixuplus",
    "kintexuplus",
    "zynquplus",
    "versal",
)

_SCRIPT = """\
# Synthesizes {name} by itself, with its constraints; reports are next to this file.
#     vivado -mode batch -source {name}.tcl -tclargs xc7a35tcpg236-1
set here [file dirname [file normalize [info script]]]
set part [expr {{$argc > 0 ? [lindex $argv 0] : "xc7a35tcpg236-1"}}]
create_project -in_memory -part $part
read_verilog [list {sources}]
{memories}read_xdc -mode out_of_context $here/constraints/{name}.xdc
synth_design -top {name} -mode out_of_context
report_utilization -hierarchical -file $here/{name}_utilization.txt
report_timing_summary -file $here/{name}_timing.txt
"""


def files(export: Export) -> dict[str, str]:
    """``component.xml`` and ``NAME.tcl``."""
    name = export.name
    contents = " ".join(f"$here/{path}" for path in export.memory_contents)
    script = _SCRIPT.format(
        name=name,
        sources=" ".join(f"$here/{path}" for path in export.verilog_files),
        memories=f"read_mem [list {contents}]\n" if contents else "",
    )
    return {"component.xml": _component(export), f"{name}.tcl": script}


def _add(parent: ET.Element, path: str, text: str = "", **attributes: str) -> ET.Element:
    """Add nested elements; returns the innermost one."""
    for tag in path.split("/"):
        parent = ET.SubElement(parent, f"{{{_SPIRIT}}}{tag}")
    parent.text = text or None
    for key, value in attributes.items():
        parent.set(f"{{{_SPIRIT}}}{key}", value)
    return parent


def _version(parent: ET.Element, tag: str, library: str, name: str) -> None:
    """Reference to a bus definition of Xilinx."""
    parts = {"vendor": "xilinx.com", "library": library, "name": name, "version": "1.0"}
    _add(parent, tag, **parts)


def _component(export: Export) -> str:
    ET.register_namespace("spirit", _SPIRIT)
    ET.register_namespace("xilinx", _XILINX)
    root = ET.Element(f"{{{_SPIRIT}}}component")
    for tag, text in {"vendor": "tg2hdl", "library": "user", "name": export.name, "version": "1.0"}.items():
        _add(root, tag, text)
    _add_interfaces(root, export)
    if export.registers is not None and any(p.group == "s_axil" for p in export.ports):
        _add_memory_map(root, export)
    _add_model(root, export)
    _add_file_sets(root, export)
    _add(root, "description", f"tg2hdl design of {export.accelerator.predicted_cycles} clock cycles")
    _add_parameter(_add(root, "parameters"), "Component_Name", export.name)
    extensions = ET.SubElement(_add(root, "vendorExtensions"), f"{{{_XILINX}}}coreExtensions")
    families = ET.SubElement(extensions, f"{{{_XILINX}}}supportedFamilies")
    for family in _FAMILIES:
        found = ET.SubElement(families, f"{{{_XILINX}}}family")
        found.text = family
        found.set(f"{{{_XILINX}}}lifeCycle", "Production")
    taxonomies = ET.SubElement(extensions, f"{{{_XILINX}}}taxonomies")
    ET.SubElement(taxonomies, f"{{{_XILINX}}}taxonomy").text = "/UserIP"
    ET.SubElement(extensions, f"{{{_XILINX}}}displayName").text = export.name
    ET.SubElement(extensions, f"{{{_XILINX}}}coreRevision").text = "1"
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _add_interfaces(root: ET.Element, export: Export) -> None:
    groups: dict[str, list[WrapperPort]] = {}
    for port in export.ports:
        groups.setdefault(port.group, []).append(port)
    parent = _add(root, "busInterfaces")
    buses = [group for group in groups if group in INTERFACES]
    for group in buses:
        interface = INTERFACES[group]
        signals = {port.signal.upper(): port.name for port in groups[group]}
        _add_interface(parent, group.upper(), "interface", interface, signals, group == "s_axil")
    associated = {"ASSOCIATED_BUSIF": ":".join(group.upper() for group in buses)} if buses else {}
    clock, reset, irq = (
        Interface("clock", "", ""),
        Interface("reset", "", ""),
        Interface("interrupt", "", "", True),
    )
    found = _add_interface(parent, CLOCK, "signal", clock, {"CLK": CLOCK})
    _add_parameters(found, CLOCK, {**associated, "ASSOCIATED_RESET": RESET})
    found = _add_interface(parent, RESET, "signal", reset, {"RST": RESET})
    _add_parameters(found, RESET, {"POLARITY": "ACTIVE_LOW"})
    if "irq" in groups:
        found = _add_interface(parent, "irq", "signal", irq, {"INTERRUPT": "irq"})
        _add_parameters(found, "irq", {"SENSITIVITY": "LEVEL_HIGH"})


def _add_interface(
    parent: ET.Element,
    name: str,
    library: str,
    interface: Interface,
    signals: Mapping[str, str],
    has_map: bool = False,
) -> ET.Element:
    found = _add(parent, "busInterface")
    _add(found, "name", name)
    _version(found, "busType", library, interface.kind)
    _version(found, "abstractionType", library, f"{interface.kind}_rtl")
    mode = _add(found, "master" if interface.is_master else "slave")
    if has_map:
        _add(mode, "memoryMapRef", memoryMapRef=name)
    maps = _add(found, "portMaps")
    for logical, physical in signals.items():
        port_map = _add(maps, "portMap")
        _add(port_map, "logicalPort/name", logical)
        _add(port_map, "physicalPort/name", physical)
    if interface.protocol:
        _add_parameters(found, name, {"PROTOCOL": interface.protocol})
    return found


def _add_parameters(interface: ET.Element, name: str, values: Mapping[str, str]) -> None:
    parameters = _add(interface, "parameters")
    for key, value in values.items():
        _add_parameter(parameters, key, value, f"BUSIFPARAM_VALUE.{name.upper()}.{key}")


def _add_parameter(parent: ET.Element, key: str, value: str, place: str = "") -> None:
    found = _add(parent, "parameter")
    _add(found, "name", key)
    _add(found, "value", value, id=place or f"PARAM_VALUE.{key}")


def _add_memory_map(root: ET.Element, export: Export) -> None:
    assert export.registers is not None
    found = _add(root, "memoryMaps/memoryMap")
    _add(found, "name", "S_AXIL")
    block = _add(found, "addressBlock")
    facts = {"name": "registers", "baseAddress": "0x0", "range": str(1 << export.registers.address_bits)}
    for tag, text in {**facts, "width": "32", "usage": "register"}.items():
        _add(block, tag, text)
    for register in export.registers.registers:
        entry = _add(block, "register")
        access = {"r": "read-only", "w": "write-only", "rw": "read-write"}[register.access]
        facts = {"name": register.name, "description": register.description}
        facts |= {"addressOffset": f"0x{register.address:X}", "size": "32", "access": access}
        for tag, text in facts.items():
            _add(entry, tag, text)


def _add_model(root: ET.Element, export: Export) -> None:
    model = _add(root, "model")
    views = _add(model, "views")
    for step in ("synthesis", "simulation"):
        view = _add(views, "view")
        _add(
            view,
            "name",
            f"xilinx_anylanguage{'synthesis' if step == 'synthesis' else 'behavioralsimulation'}",
        )
        _add(view, "displayName", step.capitalize())
        _add(view, "envIdentifier", f":vivado.xilinx.com:{step}")
        _add(view, "language", "Verilog")
        _add(view, "modelName", export.name)
        _add(view, "fileSetRef/localName", f"{step}_files")
    ports = _add(model, "ports")
    every = [(CLOCK, True, 1), (RESET, True, 1), *((p.name, p.is_input, p.width) for p in export.ports)]
    for name, is_input, width in every:
        port = _add(ports, "port")
        _add(port, "name", name)
        wire = _add(port, "wire")
        _add(wire, "direction", "in" if is_input else "out")
        if width > 1:
            vector = _add(wire, "vector")
            _add(vector, "left", str(width - 1))
            _add(vector, "right", "0")


def _add_file_sets(root: ET.Element, export: Export) -> None:
    parent = _add(root, "fileSets")
    sources = [(path, "fileType", "verilogSource") for path in export.verilog_files]
    sources += [(path, "userFileType", "mem") for path in export.memory_contents]
    constraints = (f"constraints/{export.name}.xdc", "userFileType", "xdc")
    _add_files(parent, "synthesis_files", [*sources, constraints], out_of_context=constraints[0])
    _add_files(parent, "simulation_files", sources)


def _add_files(
    parent: ET.Element, name: str, rows: Iterable[tuple[str, str, str]], out_of_context: str = ""
) -> None:
    found = _add(parent, "fileSet")
    _add(found, "name", name)
    for path, tag, kind in rows:
        file = _add(found, "file")
        _add(file, "name", path)
        _add(file, tag, kind)
        if path == out_of_context:
            # The clock belongs to the design around the core.
            _add(file, "userFileType", "USED_IN_out_of_context")
