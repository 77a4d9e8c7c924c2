"""Constant folding, common subexpressions, narrower words and dead-code removal."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tg2hdl_sim.levelized.fold import COMMUTATIVE, fold, signed_bits, unsigned_bits
from tg2hdl_sim.levelized.nodes import NetlistWords, WordNode
from tg2hdl_sim.levelized.operands import (
    CONST,
    Operand,
    bits_of,
    concat,
    constant,
    constant_value,
    part,
    replace,
    sign_extend,
    sources,
)

__all__ = ["evaluation_order", "simplify", "tidy"]

ROUNDS = 4
LOW_BITS_DECIDE = frozenset(["+", "-", "*", "&", "|", "^", "~", "mux", "shl", "ff"])


def simplify(design: NetlistWords) -> None:
    """Simplify a design in place; unused nodes lose their operands."""
    for _ in range(ROUNDS):
        if not _number_values(design):
            break
    _drop_dead(design)
    if _keep_demanded_bits(design):
        _number_values(design)
        _drop_dead(design)


def tidy(design: NetlistWords) -> None:
    """Merge and fold nodes after a rewrite; unused nodes lose their operands."""
    _number_values(design)
    _drop_dead(design)


def evaluation_order(design: NetlistWords) -> list[int]:
    """Return the nodes that are used, operands before users; registers and inputs are there too."""
    nodes = design.nodes
    state = bytearray(len(nodes))
    order: list[int] = []
    pending: list[int] = []

    def visit(root: int) -> None:
        stack = [root]
        while stack:
            node = stack[-1]
            if state[node]:
                stack.pop()
                if state[node] == 1:
                    state[node] = 2
                    order.append(node)
                continue
            state[node] = 1
            if nodes[node].op == "ff":
                pending.append(node)
                continue
            for operand in nodes[node].ins:
                for source, _, _ in operand:
                    if source != CONST and not state[source]:
                        stack.append(source)

    for operand in _roots(design):
        for source in sources(operand):
            visit(source)
    while pending:
        for source in sources(nodes[pending.pop()].ins[0]):
            visit(source)
    return order


def _roots(design: NetlistWords) -> list[Operand]:
    found = list(design.outputs.values())
    for write in design.writes:
        found += [write.address, write.data, write.enable]
    return found


def _number_values(design: NetlistWords) -> bool:
    """Fold every node once and merge equal ones; returns whether registers became simpler."""
    nodes = design.nodes
    values: dict[int, Operand] = {}
    known: dict[Any, int] = {}
    again = False
    order = evaluation_order(design)
    uses = Counter(s for number in order for operand in nodes[number].ins for s in sources(operand))
    alone = {number for number, count in uses.items() if count == 1}
    for number in order:
        node = nodes[number]
        if node.op in ("ff", "in"):
            continue
        node.ins = [replace(operand, values.get) for operand in node.ins]
        if node.op == "mux":
            _share_conditions(design, number, alone)
        found = _fold_negations(design, number) or fold(node, number)
        if found is not None and node.op == "copy":
            values[number] = found
            continue
        if found is not None and (not found or found[0][0] != number):
            values[number] = found
            continue
        ins = sorted(node.ins) if node.op in COMMUTATIVE else node.ins
        key = (node.op, tuple(ins), node.width, node.data)
        same = known.setdefault(key, number)
        if same != number:
            whole = bits_of(same, 0, node.width)
            values[number] = replace(found, {number: whole}.get) if found is not None else whole
        elif found is not None:
            values[number] = found
    for number in order:
        node = nodes[number]
        if node.op != "ff":
            continue
        node.ins = [replace(node.ins[0], values.get)]
        found = _fold_register(design, number, known, values)
        if found is not None:
            values[number] = found
            again = True
    if again:
        for number in order:
            nodes[number].ins = [replace(operand, values.get) for operand in nodes[number].ins]

    def resolve(operand: Operand) -> Operand:
        # The second time for registers that became simpler after the words that read them.
        return replace(replace(operand, values.get), values.get)

    for name, operand in design.outputs.items():
        design.outputs[name] = resolve(operand)
    kept = []
    for write in design.writes:
        write.address, write.data, write.enable = (
            resolve(operand) for operand in (write.address, write.data, write.enable)
        )
        if constant_value(write.enable) != 0:
            kept.append(write)
    design.writes = kept
    return again


def _share_conditions(design: NetlistWords, number: int, alone: set[int]) -> None:
    """Drop alternatives of earlier multiplexers that the condition of a multiplexer rules out.

    ``g ? (c ? a : v) : v`` with ``v = g ? y : x`` is ``g ? (c ? a : y) : x``: assignments one after the other under one
    enable, as counters have them.
    """
    nodes = design.nodes
    node = nodes[number]
    condition = node.ins[0]

    def multiplexer(operand: Operand) -> WordNode | None:
        if len(operand) != 1 or operand[0][0] == CONST:
            return None
        source = nodes[operand[0][0]]
        return source if source.op == "mux" and operand == bits_of(operand[0][0], 0, source.width) else None

    def chosen(operand: Operand, side: int) -> Operand:
        source = multiplexer(operand)
        return source.ins[side] if source is not None and source.ins[0] == condition else operand

    for side in (1, 2):
        node.ins[side] = chosen(node.ins[side], side)
        inner = multiplexer(node.ins[side])
        if inner is None or node.ins[side][0][0] not in alone:
            continue
        decided = [inner.ins[0], *(chosen(operand, side) for operand in inner.ins[1:])]
        if decided != inner.ins:
            # A new node: others may yet turn out to be equal to the old one.
            node.ins[side] = bits_of(design.add("mux", decided, inner.width), 0, inner.width)


def _fold_negations(design: NetlistWords, number: int) -> Operand | None:
    """Drop double negations; a multiplexer swaps its branches instead of negating its condition."""
    node = design.nodes[number]

    def negated(operand: Operand) -> Operand | None:
        if len(operand) != 1 or operand[0][0] == CONST:
            return None
        source = design.nodes[operand[0][0]]
        whole = source.op == "~" and operand == bits_of(operand[0][0], 0, source.width)
        return source.ins[0] if whole else None

    if node.op == "~":
        return negated(node.ins[0])
    if node.op == "mux":
        condition = negated(node.ins[0])
        if condition is not None:
            node.ins = [condition, node.ins[2], node.ins[1]]
    return None


def _fold_register(
    design: NetlistWords, number: int, known: dict[Any, int], values: dict[int, Operand]
) -> Operand | None:
    node = design.nodes[number]
    (following,), width, init = node.ins, node.width, node.data
    if following == bits_of(number, 0, width) or constant_value(following) == init:
        return constant(init, width)
    key = ("ff", following, width, init)
    same = known.setdefault(key, number)
    if same != number:
        return replace(bits_of(same, 0, width), values.get)
    start = constant(init, width)
    unsigned = max(unsigned_bits(following), unsigned_bits(start), 1)
    signed = max(signed_bits(following), signed_bits(start), 1)
    bits = min(unsigned, signed)
    if bits == width:
        return None
    node.ins, node.width, node.data = [part(following, 0, bits)], bits, init & ((1 << bits) - 1)
    whole = bits_of(number, 0, bits)
    if unsigned <= signed:
        return concat((*whole, *constant(0, width - bits)))
    return sign_extend(whole, width)


def _drop_dead(design: NetlistWords) -> None:
    used = set(evaluation_order(design))
    for number, node in enumerate(design.nodes):
        if number not in used and node.op != "in":
            node.op, node.ins = "dead", []


def _keep_demanded_bits(design: NetlistWords) -> bool:
    """Cut the high bits that nothing reads; returns whether there were any."""
    nodes = design.nodes
    demanded: dict[int, int] = {}
    work: list[int] = []

    def use(operand: Operand, limit: int | None = None) -> None:
        place = 0
        for node, low, count in operand:
            size = abs(count)
            if limit is not None:
                size = min(size, limit - place)
                if size <= 0:
                    return
            place += abs(count)
            if node == CONST:
                continue
            high = low + size if count > 0 else low + 1
            if demanded.get(node, 0) < high:
                demanded[node] = high
                work.append(node)

    for operand in _roots(design):
        use(operand)
    while work:
        number = work.pop()
        node, high = nodes[number], demanded[number]
        if node.op in LOW_BITS_DECIDE:
            first = 1 if node.op == "mux" else 0
            for place, operand in enumerate(node.ins):
                whole = place < first or (node.op == "shl" and place)
                use(operand, None if whole else high)
        else:
            for operand in node.ins:
                use(operand)
    changed = False
    for number, high in demanded.items():
        node = nodes[number]
        if high < node.width and node.op in LOW_BITS_DECIDE:
            changed = True
            first = 1 if node.op == "mux" else 0
            node.ins = [
                operand if place < first or (node.op == "shl" and place) else part(operand, 0, high)
                for place, operand in enumerate(node.ins)
            ]
            node.width = high
            if node.op == "ff":
                node.data &= (1 << high) - 1
    return changed
