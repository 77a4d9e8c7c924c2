"""Comparisons of one word with many constants become the bits of one decoded word."""

from __future__ import annotations

from collections import defaultdict

from tg2hdl_sim.levelized.nodes import NetlistWords
from tg2hdl_sim.levelized.operands import CONST, Operand, bits_of, constant, constant_value, width_of
from tg2hdl_sim.levelized.simplify import evaluation_order, tidy

__all__ = ["merge_decoders"]

WIDEST = 6  # decoded, such a word has 64 bits
STEPS = 4  # bitwise operators after a comparison
SMALLEST = 8  # comparisons that are worth a shift and the bits taken out of it


def merge_decoders(design: NetlistWords) -> None:
    """Replace comparisons with constants by the bits of ``1 << word``, in place.

    Only where the bits become neighbours in a word: comparisons for the lanes of a loop stay, so that the lanes are
    alike.  Where the word has them in the reverse order, they are those of ``top >> word``, so that later nodes can be
    computed on whole words.
    """
    nodes = design.nodes
    found: defaultdict[Operand, dict[int, int]] = defaultdict(dict)
    for number in evaluation_order(design):
        node = nodes[number]
        if node.op != "eq" or number in design.settled:
            continue
        value = constant_value(node.ins[0])
        if value is not None and width_of(node.ins[1]) <= WIDEST:
            found[node.ins[1]][value] = number
    found = defaultdict(dict, {word: c for word, c in found.items() if len(c) >= SMALLEST})
    if not found:
        return
    users = _users(design)
    values: dict[int, Operand] = {}
    for word, compared in found.items():
        width = 1 << width_of(word)
        order = _order({value: _place(design, users, number) for value, number in compared.items()})
        if 2 * abs(order) < len(compared):
            continue
        if order < 0:
            decoded = design.add("shr", [constant(1 << (width - 1), width), word], width)
            values |= {n: bits_of(decoded, width - 1 - value, 1) for value, n in compared.items()}
        else:
            decoded = design.add("shl", [constant(1, width), word], width)
            values |= {n: bits_of(decoded, value, 1) for value, n in compared.items()}
    if not values:
        return
    design.substitute(values)
    tidy(design)


def _users(design: NetlistWords) -> dict[int, list[tuple[int, int]]]:
    """Return who uses each node of one bit, and at which place of an operand."""
    found: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for number in evaluation_order(design):
        for operand in design.nodes[number].ins:
            place = 0
            for source, _, count in operand:
                if source != CONST and count == 1:
                    found[source].append((number, place))
                place += abs(count)
    return found


def _place(
    design: NetlistWords, users: dict[int, list[tuple[int, int]]], number: int
) -> tuple[int, int] | None:
    """Return the word that a bit becomes a part of, and its place there."""
    for _ in range(STEPS):
        found = users.get(number, [])
        if len(found) != 1:
            return None
        ((user, place),) = found
        if design.nodes[user].width > 1 or design.nodes[user].op in ("any", "all", "eq", "match"):
            return user, place
        if user in design.origins:
            return design.origins[user]
        number = user
    return None


def _order(places: dict[int, tuple[int, int] | None]) -> int:
    """Return how many values are next to the following one in a word; negative when greater ones have lower places."""
    votes = 0
    for value, here in places.items():
        following = places.get(value + 1)
        if here is not None and following is not None and here[0] == following[0]:
            votes += 1 if following[1] > here[1] else -1
    return votes
