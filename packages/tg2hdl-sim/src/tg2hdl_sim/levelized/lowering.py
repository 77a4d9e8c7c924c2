"""From Amaranth's netlist to words: modules once, loops in bits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tg2hdl_sim.amaranth_internals import nir
from tg2hdl_sim.levelized.decoders import merge_decoders
from tg2hdl_sim.levelized.modules import ModuleWords, has_combinational_path
from tg2hdl_sim.levelized.netlist_lowering import NetlistLowering
from tg2hdl_sim.levelized.nodes import NetlistWords
from tg2hdl_sim.levelized.operands import (
    constant,
)
from tg2hdl_sim.levelized.packing import pack_bits
from tg2hdl_sim.levelized.simplify import simplify
from tg2hdl_sim.model import Elaboration

__all__ = ["lower"]

FEWEST_CELLS = 256
"""Of a module that is lowered by itself."""


def lower(
    elaboration: Elaboration, watched: Iterable[tuple[str, Any]] = (), *, pack: bool = False
) -> NetlistWords:
    """Return the words of a design; those of a module are made once and copied for each of its instances.

    Parameters
    ----------
    watched : iterable of (str, nir.Value)
        Further outputs, such as the signals of a waveform.
    pack : bool
        Whether single bits of modules become words, as `build_program` packs those of the rest.

    Raises
    ------
    UnsupportedError
        For a construct that two-state simulation with one clock cannot express; the message names it.
    """
    watched = list(watched)
    library = _Library(elaboration, pack) if elaboration.modules and not watched else None
    lowering = _without_loops(elaboration, library, watched)
    simplify(lowering.design)
    lowering.check_clock()
    return lowering.design


def _without_loops(
    elaboration: Elaboration, library: _Library | None = None, watched: Sequence[tuple[str, Any]] = ()
) -> NetlistLowering:
    """Lower a design, with words cut into bits where they would make combinational loops."""
    in_bits: frozenset[int] = frozenset()
    while True:
        lowering = NetlistLowering(
            elaboration,
            elaboration.netlist if library is None else library.netlist,
            {} if library is None else library.words,
            library is not None and library.pack,
            in_bits,
        )
        lowering.run(watched)
        looping = lowering.cells_in_loops()
        if not looping - in_bits:
            return lowering
        in_bits |= looping


class _Library:
    """The modules of a design, lowered once for each set of constants at their inputs.

    A module with a combinational path from an input to an output is not here: bits that it packs into one word may be
    on a path of the design through both of them.  Nor is a small one: it passes words on, and their readers decide
    where they are cut.

    Attributes
    ----------
    netlist : Netlist
        The design with instances of these modules.
    words : dict of int to ModuleWords
        By the cell of an instance in that netlist.
    """

    def __init__(self, elaboration: Elaboration, pack: bool) -> None:
        self.pack, self.modules = pack, elaboration.modules
        known: dict[tuple[str, tuple[tuple[str, int], ...]], ModuleWords | None] = {}
        keys = {}
        outer = elaboration.netlist_with(())
        for index, cell in enumerate(outer.cells):
            if isinstance(cell, nir.Instance) and cell.type in self.modules:
                keys[index] = key = cell.type, self._constants(cell)
                if key not in known:
                    small = self.modules[cell.type].cells < FEWEST_CELLS
                    known[key] = None if small else self._lower(*key)
        inlined = {name for (name, _), words in known.items() if words is None}
        self.netlist = elaboration.netlist_with(inlined)
        self.words = {
            index: words
            for index, key in keys.items()
            if key[0] not in inlined and (words := known[key]) is not None
        }

    def _constants(self, cell: Any) -> tuple[tuple[str, int], ...]:
        found = []
        for name in self.modules[cell.type].netlist.top.ports_i:
            nets = cell.ports_i[name]
            if all(net.is_const for net in nets):
                found.append((name, sum(net.const << place for place, net in enumerate(nets))))
        return tuple(found)

    def _lower(self, name: str, constants: tuple[tuple[str, int], ...]) -> ModuleWords | None:
        module = self.modules[name]
        design = _without_loops(module).design
        design.outputs = {port: design.outputs[port] for port in module.netlist.top.ports_o}
        design.substitute(
            {
                node: constant(value >> low, design.nodes[node].width)
                for port, value in constants
                for node, low in design.inputs[port]
            }
        )
        simplify(design)
        if self.pack:
            merge_decoders(design)
            pack_bits(design)
        return None if has_combinational_path(design) else ModuleWords(design)
