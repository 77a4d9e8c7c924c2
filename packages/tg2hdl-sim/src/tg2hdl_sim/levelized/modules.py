"""Words of a module, lowered once and copied for each of its instances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace as with_fields
from typing import Any

from tg2hdl_sim.levelized.nodes import NetlistWords, Write
from tg2hdl_sim.levelized.operands import CONST, Operand, replace, sources
from tg2hdl_sim.levelized.simplify import evaluation_order

__all__ = ["InputWord", "ModuleWords", "has_combinational_path"]

InputWord = tuple[str, int, int]
"""Port, first bit and width of a word that a module reads."""

_FIRST_INPUT = -2  # numbers of input words count down from here


def has_combinational_path(design: NetlistWords) -> bool:
    """Whether an output of a design depends on an input within a cycle."""
    nodes = design.nodes
    reached: set[int] = set()
    for number in evaluation_order(design):
        node = nodes[number]
        if node.op == "in" or (
            node.op != "ff" and any(s in reached for operand in node.ins for s in sources(operand))
        ):
            reached.add(number)
    return any(source in reached for operand in design.outputs.values() for source in sources(operand))


class ModuleWords:
    """The words of a module, numbered from 0; its inputs are numbered down from -2.

    Parameters
    ----------
    design : NetlistWords
        The module; nodes that it does not use are left out.

    Attributes
    ----------
    inputs : list of InputWord
        The larger word that each input word is a part of.
    """

    def __init__(self, design: NetlistWords) -> None:
        order = evaluation_order(design)
        used = [number for number in order if design.nodes[number].op != "in"]
        names = {number: place for place, number in enumerate(used)}
        self.inputs: list[InputWord] = []
        for number in order:
            node = design.nodes[number]
            if node.op == "in":
                names[number] = _FIRST_INPUT - len(self.inputs)
                self.inputs.append((*node.data, node.width))
        names[CONST] = CONST

        def renamed(operand: Operand) -> Operand:
            return tuple((names[node], low, count) for node, low, count in operand)

        self._nodes = [
            (node.op, [renamed(operand) for operand in node.ins], node.width, node.data)
            for node in map(design.nodes.__getitem__, used)
        ]
        self._outputs = {name: renamed(operand) for name, operand in design.outputs.items()}
        self._segments = design.segments
        self._writes = [
            Write(w.segment, renamed(w.address), renamed(w.data), renamed(w.enable)) for w in design.writes
        ]
        self._origins = {names[n]: origin for n, origin in design.origins.items() if n in names}

    def copy(
        self, design: NetlistWords, inputs: Sequence[Operand], memories: Sequence[int], instance: int
    ) -> Mapping[str, Operand]:
        """Add the words of an instance to a design.

        Parameters
        ----------
        design : NetlistWords
            Where they go.
        inputs : sequence of Operand
            Value of each of `inputs`.
        memories : sequence of int
            Index in the outer elaboration of each memory of the module.
        instance : int
            Cell of the instance.

        Returns
        -------
        mapping of str to Operand
            Outputs of the instance.
        """
        first, segment = len(design.nodes), len(design.segments)
        values = {_FIRST_INPUT - place: value for place, value in enumerate(inputs)}

        def moved(operand: Operand) -> Operand:
            found = tuple((node + first if node >= 0 else node, low, count) for node, low, count in operand)
            return replace(found, values.get)

        for op, ins, width, data in self._nodes:
            where: Any = data + segment if op == "read" else data
            design.add(op, [moved(operand) for operand in ins], width, where)
        for held in self._segments:
            design.segments.append(with_fields(held, memory=memories[held.memory]))
        for w in self._writes:
            design.writes.append(Write(w.segment + segment, moved(w.address), moved(w.data), moved(w.enable)))
        for number, (cell, low) in self._origins.items():
            design.origins[number + first] = (instance + 1 << 32) + cell, low
        return {name: moved(operand) for name, operand in self._outputs.items()}
