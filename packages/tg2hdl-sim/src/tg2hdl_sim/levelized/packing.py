"""Single bits that are computed alike become bits of one word.

Trees over the bits of a word (leading zeros, priorities) arrive as many operators of one bit.  Bits at one depth with
the same operator, whose operands lie in the same words at the same distances, become one operator on whole words.
Registers that the cuts split are joined again where that pays.  Nothing moves between depths, so no loop
through a word can arise.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

from tg2hdl_sim.levelized.cuts import WORD
from tg2hdl_sim.levelized.nodes import NetlistWords
from tg2hdl_sim.levelized.operands import (
    CONST,
    Operand,
    bits_of,
    concat,
    constant,
    part,
    sign_extend,
)
from tg2hdl_sim.levelized.simplify import evaluation_order, tidy

__all__ = ["pack_bits", "varying_nodes"]

BITWISE = frozenset(["&", "|", "^", "~", "mux"])
WIDEST = 5  # words of more bits are worth a statement of their own
SMALLEST = 2
ROUNDS = 5
EXTRACT = 1.5  # operations to take a bit out of a word

Bit = tuple[int, int]  # node, or word of the plan, and place
Slot = tuple[str, int, int]  # "k" constant, "b" the same bit for all, "s" a bit at a distance


@dataclass
class _PackedWord:
    """Bits that become one word; `low` is the position of its first bit in the word of its first slot."""

    op: str
    slots: tuple[Slot, ...]
    bits: list[tuple[Bit, int]]
    low: int = 0
    node: int = field(init=False)

    @property
    def width(self) -> int:
        return max(place for _, place in self.bits) + 1


@dataclass
class _Plan:
    words: list[_PackedWord] = field(default_factory=list)
    places: dict[Bit, Bit] = field(default_factory=dict)

    def runs(self, operand: Operand) -> Iterator[tuple[int, int, int]]:
        """Yield (word, place, count) of the runs of an operand's bits in words of the plan."""
        word, first, count = CONST, 0, 0
        for bit in _bits(operand):
            here, place = self.places.get(bit, (CONST, 0))
            if here == word != CONST and place == first + count:
                count += 1
                continue
            if word != CONST:
                yield word, first, count
            word, first, count = here, place, 1
        if word != CONST:
            yield word, first, count


def varying_nodes(design: NetlistWords, varying: Iterable[str]) -> set[int]:
    """Return the nodes that depend on some inputs.

    Parameters
    ----------
    design : NetlistWords
    varying : iterable of str
        Names of input ports.
    """
    names = set(varying)
    users: defaultdict[int, set[int]] = defaultdict(set)
    readers: defaultdict[int, set[int]] = defaultdict(set)
    stored: defaultdict[int, set[int]] = defaultdict(set)
    for number, node in enumerate(design.nodes):
        for operand in node.ins:
            for source, _, _ in operand:
                users[source].add(number)
        if node.op == "read":
            readers[node.data].add(number)
    for write in design.writes:
        for operand in (write.address, write.data, write.enable):
            for source, _, _ in operand:
                stored[source].add(write.segment)
    found: set[int] = set()
    work = [n for n, node in enumerate(design.nodes) if node.op == "in" and node.data[0] in names]
    while work:
        number = work.pop()
        if number in found:
            continue
        found.add(number)
        work += users[number]
        for segment in stored[number]:
            work += readers[segment]
    return found


def pack_bits(design: NetlistWords, varying: Iterable[str] = ()) -> None:
    """Pack single bits into words, in place.

    Parameters
    ----------
    design : NetlistWords
        Changed in place.
    varying : iterable of str, optional
        Input ports that differ among the simulations of a batch; bits that depend on them are packed with each other
        only.
    """
    packer = _Packer(design, varying_nodes(design, varying))
    for _ in range(ROUNDS):
        plan = packer.plan()
        if not packer.refuse(plan):
            break
    else:
        plan = packer.plan()
    if plan.words:
        packer.apply(plan)
        tidy(design)


class _Packer:
    def __init__(self, design: NetlistWords, varying: set[int]) -> None:
        self.design, self.varying = design, varying
        nodes = design.nodes
        self.order = evaluation_order(design)
        self.depth: dict[int, int] = {}
        self.levels: defaultdict[int, list[int]] = defaultdict(list)
        for number in self.order:
            node = nodes[number]
            if node.op in ("ff", "in"):
                self.depth[number] = 0
                continue
            self.depth[number] = 1 + max(
                (self.depth[s] for operand in node.ins for s, _, _ in operand if s != CONST), default=0
            )
            if node.op in BITWISE and node.width <= WIDEST and number not in design.settled:
                self.levels[self.depth[number]].append(number)
        self.refused: set[int] = set()
        self.inputs: dict[Bit, tuple[Bit, ...]] = {}
        for level in self.levels.values():
            for number in level:
                node = nodes[number]
                for bit in range(node.width):
                    ins = list(enumerate(node.ins))
                    self.inputs[number, bit] = tuple(
                        _bit(operand, 0 if node.op == "mux" and not k else bit) for k, operand in ins
                    )
        self.registers: defaultdict[tuple[int, bool], list[int]] = defaultdict(list)
        alone = design.origins.keys() - design.settled
        for number in self.order:
            node = nodes[number]
            if node.op == "ff" and node.width == 1 and number in alone:
                self.registers[design.origins[number][0], number in varying].append(number)
                self.inputs[number, 0] = (_bit(node.ins[0], 0),)

    # Bits that become a word

    def plan(self) -> _Plan:
        plan = _Plan()
        for members in self.registers.values():
            alone = [((n, 0), self.design.origins[n][1]) for n in members if n not in self.refused]
            self._add(plan, "ff", (), alone)
        for depth in sorted(self.levels):
            self._plan_level(plan, [n for n in self.levels[depth] if n not in self.refused])
        return plan

    def _add(self, plan: _Plan, op: str, slots: tuple[Slot, ...], bits: list[tuple[Bit, int]]) -> None:
        bits.sort(key=lambda item: item[1])
        while bits:
            low = bits[0][1]
            here = [(bit, place - low) for bit, place in bits if place - low < WORD]
            bits = bits[len(here) :]
            if len(here) < SMALLEST:
                continue
            number = -2 - len(plan.words)
            plan.words.append(_PackedWord(op, slots, here, low))
            for bit, place in here:
                plan.places[bit] = number, place

    def _plan_level(self, plan: _Plan, level: list[int]) -> None:
        keys: defaultdict[tuple[str, bool, tuple[Slot, ...]], dict[Bit, int]] = defaultdict(dict)
        for number in level:
            node = self.design.nodes[number]
            for bit in range(node.width):
                slots = [plan.places.get(b, b) for b in self.inputs[number, bit]]
                if node.op in ("&", "|", "^"):
                    slots.sort()
                for key, place in self._forms(slots):
                    keys[node.op, number in self.varying, key].setdefault((number, bit), place)
        taken: set[Bit] = set()
        waiting = [item for item in keys.items() if len(item[1]) >= SMALLEST]
        waiting.sort(key=lambda item: -len(item[1]))
        while waiting:
            (op, varies, form), members = waiting.pop(0)
            left = {bit: place for bit, place in members.items() if bit not in taken}
            if len(left) < SMALLEST:
                continue
            if len(left) < len(members) and waiting and len(left) < len(waiting[0][1]):
                waiting.append(((op, varies, form), left))
                waiting.sort(key=lambda item: -len(item[1]))
                continue
            taken |= set(left)
            self._add(plan, op, form, list(left.items()))

    def _forms(self, slots: Sequence[Bit]) -> Iterator[tuple[tuple[Slot, ...], int]]:
        """Yield the forms that an operator on words can give a bit's operands, and the bit's place for each."""
        nodes = self.design.nodes
        choices = [
            "k" if node == CONST else "b" if node >= 0 and nodes[node].width == 1 else "sb"
            for node, _ in slots
        ]
        for kinds in product(*choices):
            if "s" not in kinds:
                continue
            first = slots[kinds.index("s")][1]
            key = tuple(
                (kind, node, place - first if kind == "s" else place)
                for kind, (node, place) in zip(kinds, slots, strict=True)
            )
            yield key, first

    # Packing that does not pay

    def refuse(self, plan: _Plan) -> bool:
        """Take nodes out of the packing that cost more than they save; returns whether there were any.

        Words that no other word reads go first: without them, the words that they read may not pay either.
        """
        nodes, design = self.design.nodes, self.design
        packed = {bit[0] for bit in plan.places}
        whole = {n for n in packed if all((n, bit) in plan.places for bit in range(nodes[n].width))}
        roots = list(design.outputs.values())
        for write in design.writes:
            roots += [write.address, write.data, write.enable]
        for number in self.order:
            if number not in whole:
                roots += nodes[number].ins
        outside = {bit for operand in roots for bit in _bits(operand)}
        taken_out = Counter(word for word, _, _ in {run for operand in roots for run in plan.runs(operand)})
        read = {source for word in plan.words for kind, source, _ in word.slots if kind == "s"}
        bad: set[int] = set()
        for number in reversed(range(len(plan.words))):
            word = plan.words[number]
            if -2 - number in read:
                continue
            members = [bit for bit, _ in word.bits]
            inputs = {b for member in members for b in self.inputs[member]}
            released = sum(b in plan.places and b not in outside for b in inputs)
            saved = self._saved(plan, word, whole) - EXTRACT * taken_out[-2 - number]
            if saved + EXTRACT * released <= 0:
                bad |= {n for n, _ in members}
                taken_out.update(plan.places[b][0] for b in inputs - outside if b in plan.places)
                outside |= inputs
        self.refused |= bad
        return bool(bad)

    def _saved(self, plan: _Plan, word: _PackedWord, whole: set[int]) -> float:
        """Operations that a word saves when all bits that it reads are in place."""
        nodes = self.design.nodes
        each = {"ff": 2.0, "mux": 3.0}.get(word.op, 1.0)
        saved = sum(each / nodes[n].width for (n, _), _ in word.bits if n in whole)
        if word.op == "ff":
            following = [b for bit, _ in word.bits for b in self.inputs[bit]]
            return saved - 2 - 2 * _runs([plan.places.get(b, b) for b in following])
        stride = word.op == "mux" and word.slots[0][0] == "s"
        cost = 3 if word.op == "mux" else 1
        cost += sum(kind == "s" and distance != 0 for kind, _, distance in word.slots)
        cost += sum(2 for k, slot in enumerate(word.slots) if slot[0] == "b" and (k or stride))
        return saved - cost

    # Into the design

    def apply(self, plan: _Plan) -> None:
        design = self.design
        values: dict[int, list[Operand]] = {}
        for word in plan.words:
            if word.op == "ff":
                init = sum(design.nodes[n].data << place for (n, _), place in word.bits)
                word.node = design.add("ff", [], word.width, init)
        for word in plan.words:
            if word.op != "ff":
                word.node = self._operator(plan, word)
        for bit, (number, place) in plan.places.items():
            alone = [bits_of(bit[0], k, 1) for k in range(design.nodes[bit[0]].width)]
            pieces = values.setdefault(bit[0], alone)
            pieces[bit[1]] = bits_of(plan.words[-2 - number].node, place, 1)
        wholes = {
            number: concat(piece for operand in pieces for piece in operand)
            for number, pieces in values.items()
        }
        design.substitute(wholes)
        for word in plan.words:
            if word.op == "ff":
                design.nodes[word.node].ins = [self._next(word)]

    def _operator(self, plan: _Plan, word: _PackedWord) -> int:
        design, width, first = self.design, word.width, word.low
        operands: list[Operand] = []
        for kind, source, value in word.slots:
            node = plan.words[-2 - source].node if source < CONST else source
            if kind == "k":
                operands.append(constant(-value, width))
            elif kind == "b":
                operands.append(sign_extend(bits_of(node, value, 1), width))
            else:
                operands.append(bits_of(node, first + value, width))
        if word.op != "mux":
            return design.add(word.op, operands, width)
        condition, yes, no = operands
        if word.slots[0][0] == "b":
            return design.add("mux", [part(condition, 0, 1), yes, no], width)
        differ = design.add("^", [yes, no], width)
        chosen = design.add("&", [bits_of(differ, 0, width), condition], width)
        return design.add("^", [bits_of(chosen, 0, width), no], width)

    def _next(self, word: _PackedWord) -> Operand:
        """Return the next value of a register; bits that nothing reads continue the run before them."""
        nodes = self.design.nodes
        following = {place: nodes[n].ins[0] for (n, _), place in word.bits}
        pieces: list[Operand] = []
        for place in range(word.width):
            if place in following:
                pieces.append(following[place])
                continue
            ((node, low, _),) = pieces[-1]
            fits = node != CONST and low + 1 < nodes[node].width
            pieces.append(bits_of(node, low + 1, 1) if fits else constant(0, 1))
        return concat(piece for operand in pieces for piece in operand)


def _bit(operand: Operand, bit: int) -> Bit:
    ((node, low, _),) = part(operand, bit, 1)
    return node, low


def _bits(operand: Operand) -> list[Bit]:
    return [
        (node, low + k)
        for node, low, count in operand
        if node != CONST
        for k in range(count if count > 0 else 1)
    ]


def _runs(bits: Sequence[Bit]) -> int:
    """Pieces of a concatenation."""
    return sum(k == 0 or bit[0] != bits[k - 1][0] or bit[1] <= bits[k - 1][1] for k, bit in enumerate(bits))
