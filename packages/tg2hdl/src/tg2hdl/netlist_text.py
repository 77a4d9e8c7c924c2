"""RTLIL of a design apart from the contents of its memories.

Amaranth writes contents bit by bit, and Yosys reads and writes them as it does: for millions of bits both take minutes
and gigabytes. Contents go around both: the text has a gap for each memory, which is filled at the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from amaranth.hdl import ClockDomain, Fragment, Value
from amaranth.lib import wiring

from tg2hdl_lower.ops.unit_component import units_as_modules
from tg2hdl_sim.amaranth_internals import (
    EmptyModuleChecker,
    ModuleEmitter,
    PortDirection,
    RtlilDesign,
    SignalDict,
    build_netlist,
    nir,
)

__all__ = ["MemoryContents", "NetlistText", "netlist_text"]

_CONTENTS = re.compile(r"^  cell \$meminit_v2 .*?^  end\n\n", re.MULTILINE | re.DOTALL)
_GAP = "    connect \\DATA {  }\n"


@dataclass(frozen=True)
class MemoryContents:
    """Words of a memory at power on.

    Parameters
    ----------
    module, name : str
        As the netlist has them.
    width : int
        Bits of a word.
    """

    module: str
    name: str
    width: int
    words: tuple[int, ...]

    def bits(self) -> str:
        """All words as one binary number, the first word last."""
        pattern = f"0{self.width}b"
        return "".join([format(word, pattern) for word in reversed(self.words)])


@dataclass(frozen=True)
class NetlistText:
    """RTLIL with gaps.

    Parameters
    ----------
    logic : str
        RTLIL whose memories have no contents, not even zeros.
    parts : tuple of str
        RTLIL around the contents of each memory.
    contents : tuple of MemoryContents
        In the order of the gaps.
    """

    logic: str
    parts: tuple[str, ...]
    contents: tuple[MemoryContents, ...]

    def rtlil(self) -> str:
        """All of it."""
        return "".join(self._filled())

    def _filled(self) -> Iterator[str]:
        yield self.parts[0]
        for memory, part in zip(self.contents, self.parts[1:], strict=True):
            yield f"    connect \\DATA {memory.width * len(memory.words)}'"
            yield memory.bits()
            yield f"\n{part}"


def netlist_text(component: wiring.Component, name: str, *, shared_modules: bool = False) -> NetlistText:
    """RTLIL of a component with the top module `name`.

    Parameters
    ----------
    shared_modules : bool
        One module for all equal arithmetic units, whose name begins with that of the top; otherwise each unit has one.
    """
    found: list[MemoryContents] = []
    text = _converted(component, name, found, shared_modules)
    parts = text.split(_GAP)
    assert len(parts) == len(found) + 1, "every memory has one gap"
    return NetlistText(_CONTENTS.sub("", text), tuple(parts), tuple(found))


class _ContentsEmitter(ModuleEmitter):  # type: ignore[misc]
    """Amaranth's emitter, which notes contents where it would write them."""

    found: list[MemoryContents]

    def emit_memory(self, cell_idx: int, cell: nir.Memory) -> None:
        name = self.memories[cell_idx].memid.removeprefix("\\")
        self.found.append(MemoryContents(".".join(self.module.name), name, cell.width, cell.init))
        words, cell.init = cell.init, ()
        super().emit_memory(cell_idx, cell)
        cell.init = words


def _converted(
    component: wiring.Component, name: str, found: list[MemoryContents], shared_modules: bool
) -> str:
    """`amaranth.back.rtlil.convert` with another emitter."""
    builder = RtlilDesign(emit_src=False)
    units: dict[str, wiring.Component] = {}
    with ExitStack() as stack:
        if shared_modules:
            units = stack.enter_context(units_as_modules(name))
        _write(component, name, builder, found, top=True)
    for module, unit in units.items():
        _write(unit, module, builder, found)
    return str(builder)


def _write(
    component: wiring.Component,
    name: str,
    builder: RtlilDesign,
    found: list[MemoryContents],
    *,
    top: bool = False,
) -> None:
    """Write the modules of a component."""
    ports = {
        "__".join(map(str, path)): (
            Value.cast(value),
            PortDirection.Input if member.flow is wiring.In else PortDirection.Output,
        )
        for path, member, value in component.signature.flatten(component)
    }
    fragment = Fragment.get(component, None)
    if not top:
        # An instance has a clock and a reset, also of a unit without registers.
        domain = ClockDomain("sync")
        fragment.add_domains(domain)
        ports |= {"clk": (domain.clk, PortDirection.Input), "rst": (domain.rst, PortDirection.Input)}
    netlist = build_netlist(fragment, ports=ports, name=name)
    empty, names = EmptyModuleChecker(netlist), SignalDict()
    for number, module in enumerate(netlist.modules):
        if empty.is_empty(number) and (top or number):
            continue
        into = builder.module(".".join(module.name), src_loc=module.src_loc)
        if top and number == 0:
            into.attribute("top", 1)
        emitter = _ContentsEmitter(into, netlist, module, names, empty_checker=empty)
        emitter.found = found
        emitter.emit()
