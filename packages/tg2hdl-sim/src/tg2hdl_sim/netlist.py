"""RTLIL of a design without the contents of its memories."""

from __future__ import annotations

from typing import Any

from amaranth.back import rtlil

from tg2hdl_sim.amaranth_internals import Memory, ModuleEmitter, Netlist, SignalDict

__all__ = ["to_rtlil", "to_text"]


class _ContentlessEmitter(ModuleEmitter):
    """Emits no memory contents, which would dominate the time of everything that follows."""

    def emit_memory(self, cell_idx: int, cell: Any) -> None:
        pass

    def emit_part(self, cell_idx: int, cell: Any) -> None:
        """Select bits of a signed value with ``$sshr``: CXXRTL truncates the value of ``$shift`` before it shifts."""
        super().emit_part(cell_idx, cell)
        if cell.value_signed:
            next(reversed(self.builder.contents.values())).kind = "$sshr"


def to_rtlil(netlist: Netlist) -> str:
    """Return RTLIL text that depends on structure only: no source locations, no memory contents."""
    empty = rtlil.EmptyModuleChecker(netlist)
    builder = rtlil.Design(emit_src=False)
    for index, module in enumerate(netlist.modules):
        if empty.is_empty(index):
            continue
        emitted = builder.module(".".join(module.name), src_loc=module.src_loc)
        if index == 0:
            emitted.attribute("top", 1)
        _ContentlessEmitter(emitted, netlist, module, SignalDict(), empty_checker=empty).emit()
    return str(builder)


def to_text(netlist: Netlist) -> str:
    """Return text that depends on structure only: no source locations, no memory contents."""
    lines = [f"{module.parent} {module.name}" for module in netlist.modules]
    for cell in netlist.cells:
        if isinstance(cell, Memory):
            text = f"(memory {cell.name} {cell.width} {cell.depth})"
        else:
            text = repr(cell)
        lines.append(f"{cell.module_idx} {text}")
    return "\n".join(lines)
