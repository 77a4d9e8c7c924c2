"""Lines of rewrites that are edited, as a slip of a programmer would be."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tg2hdl_ir import pipeline

__all__ = ["EDITS", "Edit", "put"]


@dataclass(frozen=True)
class Edit:
    """One line of a module that is another one.

    Parameters
    ----------
    name : str
        The rewrite.
    module : str
    old, new : str
        Text that is there once, and what takes its place.
    """

    name: str
    module: str
    old: str
    new: str
    what: str

    def source(self) -> str:
        """The edited source of the module."""
        found = importlib.util.find_spec(self.module)
        assert found is not None
        assert found.origin is not None, f"{self.module} is a source file"
        source = Path(found.origin).read_text()
        count = source.count(self.old)
        assert count == 1, f"{self.name}: {self.old!r} is {count} times in {self.module}"
        return source.replace(self.old, self.new)

    def install(self) -> None:
        """Execute the edited module in its place, and give its functions to all who imported them."""
        module = importlib.import_module(self.module)
        before = dict(vars(module))
        exec(compile(self.source(), str(module.__file__), "exec"), vars(module))
        for name, old in before.items():
            new = vars(module).get(name)
            if new is not old and getattr(old, "__module__", "") == self.module:
                put(old, new)
        sys.modules[self.module] = module


def put(old: Any, new: Any) -> None:
    """Replace a function wherever it was imported."""
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("tg2hdl"):
            for name, value in list(vars(module).items()):
                if value is old:
                    setattr(module, name, new)
    for name, entry in pipeline.all_rewrites().items():
        if entry.run is old:
            pipeline.exchange(name, replace(entry, run=new))


EDITS = [
    Edit(
        "flatten",
        "tg2hdl_ir.passes.flatten",
        "folder.equals(counter, counter.bound - 1)",
        "folder.equals(counter, max(0, counter.bound - 2))",
        "the last iteration is one too early",
    ),
    Edit(
        "flatten",
        "tg2hdl_ir.passes.flatten",
        "        return folder.equals(counter, 0)\n",
        "        return folder.equals(counter, counter.bound - 1 if isinstance(counter.bound, int) else 0)\n",
        "the first iteration is the last",
    ),
    Edit(
        "flatten",
        "tg2hdl_ir.passes.flatten",
        "items = gated + loop.items if first else loop.items + gated",
        "items = gated + loop.items",
        "what follows a loop comes before it",
    ),
    Edit(
        "flatten",
        "tg2hdl_ir.passes.flatten",
        "replace(statement, gate=folder.all_of(gate, statement.gate))",
        "replace(statement, gate=gate)",
        "a gate is lost",
    ),
    Edit(
        "balance",
        "tg2hdl_ir.passes.balance",
        '"add": 0, "or"',
        '"add": 1, "or"',
        "wrong neutral of a sum",
    ),
    Edit(
        "balance",
        "tg2hdl_ir.passes.balance",
        '"max": dtype.min_value}',
        '"max": 0}',
        "wrong neutral of a maximum",
    ),
    Edit(
        "balance",
        "tg2hdl_ir.passes.balance",
        '"min": dtype.max_value',
        '"min": 0',
        "wrong neutral of a minimum",
    ),
    Edit(
        "balance",
        "tg2hdl_ir.passes.balance",
        "IRConst(-0.0, dtype)",
        "IRConst(0.5, dtype)",
        "wrong neutral of a float sum",
    ),
    Edit(
        "choose-initial-late",
        "tg2hdl_ir.passes.initial",
        'neutral = node.dtype.min_value if node.op == "max"',
        'neutral = node.dtype.max_value if node.op == "max"',
        "wrong neutral of a maximum",
    ),
    Edit(
        "choose-initial-late",
        "tg2hdl_ir.passes.initial",
        "node.dtype, first, begun, going_on)",
        "node.dtype, first, going_on, begun)",
        "choices the other way round",
    ),
    Edit(
        "interleave",
        "tg2hdl_ir.passes.interleave",
        "replace(r, size=r.size * self.tile) if r.idx in self.private else r",
        "r",
        "registers of the interleaved outputs are one",
    ),
    Edit(
        "interleave",
        "tg2hdl_ir.passes.interleave",
        "counter.dtype, outer, const_int(self.tile, counter.dtype))",
        "counter.dtype, outer, const_int(self.tile - 1, counter.dtype))",
        "tiles overlap",
    ),
    Edit(
        "interleave",
        "tg2hdl_ir.passes.interleave",
        "tiles = -(-counter.bound // self.tile)",
        "tiles = max(1, counter.bound // self.tile)",
        "the last tile is lost",
    ),
    Edit(
        "unroll",
        "tg2hdl_ir.passes.unroll",
        "steps = -(-counter.bound // factor)",
        "steps = max(1, counter.bound // factor)",
        "the last step is lost",
    ),
    Edit(
        "unroll",
        "tg2hdl_ir.passes.unroll",
        "base.dtype, base, const_int(factor, base.dtype))",
        "base.dtype, base, const_int(1, base.dtype))",
        "lanes overlap",
    ),
    Edit(
        "unroll",
        "tg2hdl_ir.passes.unroll",
        "return self._copy(reg, key) if any(key) else reg",
        "return reg",
        "lanes share registers",
    ),
    Edit(
        "unroll",
        "tg2hdl_ir.passes.unroll",
        "            order.append(order.pop(last))\n",
        "            order.reverse()\n",
        "the lane of the last iteration is not last",
    ),
    Edit(
        "forward-registers",
        "tg2hdl_ir.passes.registers",
        'self.folder.op("where", value.dtype, gate, value, self.current[reg])',
        'self.folder.op("where", value.dtype, gate, self.current[reg], value)',
        "choices the other way round",
    ),
    Edit(
        "forward-registers",
        "tg2hdl_ir.passes.registers",
        "                self.gates[reg] = gate\n",
        "                self.gates[reg] = None\n",
        "the gate of a store is lost (equivalent)",
    ),
    Edit(
        "forward-registers",
        "tg2hdl_ir.passes.registers",
        "self.rewriter.memo[statement] = self.current[statement.reg]",
        "self.rewriter.memo[statement] = self.initial[statement.reg]",
        "a load sees the register before the step",
    ),
    Edit(
        "cut-kernel",
        "tg2hdl_ir.passes.cut_kernel",
        "    address = flat_address(counters)\n",
        "    address = flat_address(counters[:1])\n",
        "the buffer between forgets all but one loop",
    ),
    Edit(
        "cut-kernel",
        "tg2hdl_ir.passes.cut_kernel",
        "for item in (*home.prologue, *between_loops, *home.epilogue):",
        "for item in (*between_loops, *home.epilogue):",
        "what precedes the sums is lost",
    ),
    Edit(
        "split-sum",
        "tg2hdl_ir.passes.partial_sums",
        "    if found.terms % parts:\n",
        "    if False:\n",
        "terms past the end are added",
    ),
    Edit(
        "split-sum",
        "tg2hdl_ir.passes.partial_sums",
        "last.dtype, counters[-1], const_int(parts, last.dtype))",
        "last.dtype, counters[-1], const_int(1, last.dtype))",
        "terms are added several times",
    ),
    Edit(
        "split-sum",
        "tg2hdl_ir.passes.partial_sums",
        "    return flat_address([*(loop.counter for loop in found.outer if loop.counter is not None), part])",
        "    return flat_address([part])",
        "results share a place",
    ),
    Edit(
        "start-at-bias",
        "tg2hdl_ir.passes.bias",
        "bias = added.srcs[1] if added.srcs[0] is result else added.srcs[0]",
        "bias = IRConst(0.0, result.dtype)",
        "the bias is lost",
    ),
    Edit(
        "start-at-bias",
        "tg2hdl_ir.passes.bias",
        "rewriter.memo[result] = rewriter.memo[added] = result",
        "rewriter.memo[result] = result",
        "the bias is added twice",
    ),
    Edit(
        "choose-signs",
        "tg2hdl_ir.passes.signs",
        'return value if number == 1 else folder.op("neg", value.dtype, value)',
        "return value",
        "a sign is lost",
    ),
    Edit(
        "choose-signs",
        "tg2hdl_ir.passes.signs",
        "return const_int(0, value.dtype)",
        "return value",
        "a zero is a one",
    ),
    Edit(
        "gate-outside-accesses",
        "tg2hdl_ir.passes.outside",
        "low < 0, high >= size",
        "low < 0, high > size",
        "one element too many",
    ),
    Edit(
        "gate-outside-accesses",
        "tg2hdl_ir.passes.outside",
        "return replace(rebuilt, gate=self.folder.all_of(inside, rebuilt.gate))\n            case IRRegStore():",
        "return replace(rebuilt, gate=inside)\n            case IRRegStore():",
        "a gate is lost",
    ),
    Edit(
        "constant-taps",
        "tg2hdl_ir.passes.constant_taps",
        "for number in range(counter.bound):",
        "for number in range(counter.bound - 1):",
        "the last tap is lost",
    ),
    Edit(
        "constant-taps",
        "tg2hdl_ir.passes.constant_taps",
        "const_int(number, counter.dtype)",
        "const_int((number + 1) % counter.bound, counter.dtype)",
        "taps in another order",
    ),
    Edit(
        "constant-taps",
        "tg2hdl_ir.passes.constant_taps",
        "held[item.reg] = rewriter.value(item.value)",
        "held.setdefault(item.reg, rewriter.value(item.value))",
        "only the first tap counts",
    ),
    Edit(
        "phases",
        "tg2hdl_ir.passes.phases",
        "place: IRValue = const_int(position, out.dtype)",
        "place: IRValue = const_int(0, out.dtype)",
        "all phases at the first one's place",
    ),
    Edit(
        "phases",
        "tg2hdl_ir.passes.phases",
        "start: IRValue = const_int(first, tap.dtype)",
        "start: IRValue = const_int(0, tap.dtype)",
        "taps start at zero",
    ),
    Edit(
        "phases",
        "tg2hdl_ir.passes.phases",
        "counters[tap] = replace(tap, bound=-(-(tap.bound - first) // distance))",
        "counters[tap] = replace(tap, bound=max(1, (tap.bound - first) // distance))",
        "the last tap is lost",
    ),
    Edit(
        "sections",
        "tg2hdl_ir.passes.sections",
        "rewriter.memo[condition] = TRUE if value else FALSE",
        "rewriter.memo[condition] = FALSE if value else TRUE",
        "conditions the other way round",
    ),
    Edit(
        "sections",
        "tg2hdl_ir.passes.sections",
        "        first += count\n",
        "        first += 1\n",
        "sections at the wrong place",
    ),
    Edit(
        "merge-branches",
        "tg2hdl_ir.passes.merge_branches",
        "if all((condition, truth) in case for case in cases)]",
        "if any((condition, truth) in case for case in cases)]",
        "a product that both branches need is merged",
    ),
    Edit(
        "producers",
        "tg2hdl_ir.passes.elements",
        "starts: Sequence[int] | None = [low + shift for shift in shifts]",
        "starts: Sequence[int] | None = [low for shift in shifts]",
        "one address for all operands",
    ),
    Edit(
        "cut-products",
        "tg2hdl_ir.passes.cut_products",
        "address, leaf = flat_address(counters), path[-1].items",
        "address, leaf = IRConst(0, counters[0].dtype), path[-1].items",
        "one place for all",
    ),
    Edit(
        "split-axis",
        "tg2hdl_ir.passes.split",
        "outer_counter, const_int(inner, counter.dtype))",
        "outer_counter, const_int(inner + 1, counter.dtype))",
        "inner loops overlap",
    ),
    Edit(
        "gated-addresses",
        "tg2hdl_ir.passes.gated_addresses",
        "const_int(form.const, dtype)",
        "const_int(form.const + 1, dtype)",
        "one element too far",
    ),
    Edit(
        "gated-addresses",
        "tg2hdl_ir.passes.gated_addresses",
        "const_int(coefficient, dtype)",
        "const_int(coefficient + 1, dtype)",
        "a wrong stride",
    ),
    Edit(
        "hoist-weights",
        "tg2hdl_ir.passes.hoist_weights",
        "place = {n: number for number, n in enumerate(used)}",
        "place = {n: 0 for number, n in enumerate(used)}",
        "the preparation reads another weight",
    ),
    Edit(
        "fold-scales",
        "tg2hdl_ir.passes.fold_scales",
        'scale = other if scale is None else IROp("mul", dtype, (scale, other))',
        "scale = other",
        "a scale is lost",
    ),
    Edit(
        "fold-scales",
        "tg2hdl_ir.passes.fold_scales",
        'IROp("add", added.dtype, (total, rewriter.value(chain.offset)))',
        'IROp("sub", added.dtype, (total, rewriter.value(chain.offset)))',
        "the sign of an offset",
    ),
    Edit(
        "common-kernels",
        "tg2hdl_ir.passes.common_kernels",
        "known.append((name, (move - low) // step))",
        "known.append((name, 0))",
        "every call at the place of the first",
    ),
    Edit(
        "bind-values",
        "tg2hdl_ir.passes.common_kernels",
        "IRConst(known[variable.name], variable.dtype)",
        "IRConst(variable.low, variable.dtype)",
        "every call at the place of the first",
    ),
    Edit(
        "pack-products",
        "tg2hdl_ir.passes.pack_products",
        "def packing_shift(low: Interval, high: Interval, factor: Interval, width: int) -> int | None:\n",
        "def packing_shift(low: Interval, high: Interval, factor: Interval, width: int) -> int | None:\n    return 7\n",
        "halves overlap",
    ),
    Edit(
        "slice-axis",
        "tg2hdl_ir.passes.slice_axis",
        "outer.const // axis.bound * count",
        "outer.const",
        "tiles at the wrong place",
    ),
    Edit(
        "slice-axis",
        "tg2hdl_ir.passes.slice_axis",
        "counter, const_int(first, target.dtype))",
        "counter, const_int(0, target.dtype))",
        "all tiles write the first one's place",
    ),
    Edit(
        "reuse-temporaries",
        "tg2hdl_top.repeats.reuse",
        "if end < first[buffer] and storage",
        "if storage",
        "a buffer that is needed is taken",
    ),
]
