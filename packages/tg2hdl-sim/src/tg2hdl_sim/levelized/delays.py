"""Chains of registers become one shift register in a word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from tg2hdl_sim.levelized.cuts import WORD
from tg2hdl_sim.levelized.nodes import NetlistWords
from tg2hdl_sim.levelized.operands import Operand, bits_of, concat
from tg2hdl_sim.levelized.simplify import evaluation_order, tidy

__all__ = ["merge_delays"]

SHORTEST = 3
MOVE, SHIFT, TAP = 2, 4, 2  # operations to move a register, to shift a word, to take bits out of one
WIDEST_VARYING, WORD_VARYING = 4, 32  # a vector of bytes moves in one instruction


def merge_delays(design: NetlistWords, alone: Collection[int], varying: Collection[int]) -> bool:
    """Merge chains of registers, in place; returns whether there were any.

    Parameters
    ----------
    alone : collection of int
        Nodes that are in no loop over lanes.
    varying : collection of int
        Nodes that differ among the inputs of a batch.
    """
    order = evaluation_order(design)
    readers: Counter[int] = Counter()
    operands = list(design.outputs.values())
    for write in design.writes:
        operands += [write.address, write.data, write.enable]
    for number in order:
        operands += design.nodes[number].ins
    for operand in operands:
        for source in {node for node, _, _ in operand}:
            readers[source] += 1
    values: dict[int, Operand] = {}
    for chain in _chains(design, [n for n in order if design.nodes[n].op == "ff" and n in alone]):
        width, varies = design.nodes[chain[0]].width, chain[0] in varying
        if varies and width > WIDEST_VARYING:
            continue
        size = (WORD_VARYING if varies else WORD) // width
        for first in range(0, len(chain), size):
            part = chain[first : first + size]
            taps = sum(readers[n] > (n != part[-1]) for n in part)
            if len(part) >= SHORTEST and MOVE * len(part) > SHIFT + TAP * taps:
                _merge(design, part, width, values)
    if not values:
        return False
    design.substitute(values)
    tidy(design)
    return True


def _chains(design: NetlistWords, registers: list[int]) -> Iterator[list[int]]:
    nodes = design.nodes
    before: dict[int, int] = {}
    after: dict[int, int] = {}
    present = set(registers)
    for number in registers:
        (following,) = nodes[number].ins
        source = following[0][0]
        whole = following == bits_of(source, 0, nodes[number].width)
        if whole and source in present and source != number and nodes[source].width == nodes[number].width:
            before[number] = source
            after.setdefault(source, number)
    for number in registers:
        if number in before and after[before[number]] == number:
            continue  # inside a chain, or in a ring, which stays as it is
        chain = [number]
        while chain[-1] in after:
            chain.append(after[chain[-1]])
        yield chain


def _merge(design: NetlistWords, chain: list[int], width: int, values: dict[int, Operand]) -> None:
    init = sum(design.nodes[n].data << (width * k) for k, n in enumerate(chain))
    word = design.add("ff", [], width * len(chain), init)
    rest = bits_of(word, 0, width * (len(chain) - 1))
    design.nodes[word].ins = [concat((*design.nodes[chain[0]].ins[0], *rest))]
    for k, number in enumerate(chain):
        values[number] = bits_of(word, width * k, width)
