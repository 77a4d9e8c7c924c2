"""The hardware multipliers of a design as its user sees them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tg2hdl_lower import HardwarePlan
from tg2hdl_lower.ops.multiplication import pieces_of
from tg2hdl_lower.plan.operations import ConstantProduct, Op, SharedOperation, UnitOp
from tg2hdl_lower.plan.resources import PRODUCTS, SharedResource, pools
from tg2hdl_lower.sharing.budget import is_private
from tg2hdl_top import Design

__all__ = ["MultiplierEntry", "MultiplierMap"]

_T = TypeVar("_T")


@dataclass(frozen=True)
class MultiplierEntry:
    """Resources of one kind that serve the same kernels.

    Parameters
    ----------
    name : str
        Widths of the operands, or the arithmetic unit.
    count : int
    blocks : int
        Multipliers of 18 x 18 bits in all of them, before synthesis trims units whose operands are narrow.
    kernels : tuple of str
        Kernels that use them, one at a time where there are several.
    """

    name: str
    count: int
    blocks: int
    kernels: tuple[str, ...]


class MultiplierMap(Sequence[MultiplierEntry]):
    """All hardware multipliers of a design; prints as a table.

    A product by a constant takes none.
    """

    def __init__(self, design: Design) -> None:
        found: dict[tuple[str, int, tuple[str, ...]], int] = {}
        for name, blocks, kernels in _resources(design):
            if blocks:
                found[name, blocks, kernels] = found.get((name, blocks, kernels), 0) + 1
        self._entries = tuple(
            MultiplierEntry(name, count, count * blocks, kernels)
            for (name, blocks, kernels), count in found.items()
        )
        self._narrow = sum(
            pool.resource.blocks
            for group in _groups(design.core_plans, design.sharing.multipliers)
            for pool in pools(plan.products for plan in group)
            if pool.resource.pool == PRODUCTS
        )

    def __getitem__(self, index: Any) -> Any:
        return self._entries[index]

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def blocks(self) -> int:
        """Multipliers of 18 x 18 bits of the whole design."""
        return sum(e.blocks for e in self._entries)

    def __repr__(self) -> str:
        rows = [("product", "count", "blocks", "kernels")]
        rows += [(e.name, str(e.count), str(e.blocks), ", ".join(e.kernels)) for e in self._entries]
        widths = [max(len(row[n]) for row in rows) for n in range(4)]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows
        ]
        count = f"{self.blocks} multiplier{'' if self.blocks == 1 else 's'} of 18 x 18 bits"
        if 0 < self._narrow < self.blocks:
            wide = self.blocks - self._narrow
            count += f": {self._narrow} for products of at most 18 bits, {wide} for wider ones"
        return "\n".join([*lines, count])


def _resources(design: Design) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Parts of a design with multipliers: the name, its blocks, and the kernels that use it."""
    plans = design.core_plans
    yield from _pooled(plans, [p.products for p in plans], design.sharing.multipliers)
    yield from _pooled(plans, [p.shared_units for p in plans], shared=True)
    for plan in plans:
        for node in plan.all(UnitOp):
            if not isinstance(node, SharedOperation | ConstantProduct):
                yield node.unit.name, node.unit.area.dsp, (plan.kernel.name,)
        for product in plan.all(Op):
            if is_private(product, plan.nodes):
                a, b = (plan.nodes[n] for n in product.sources)
                blocks = pieces_of(a.width + (not a.signed)) * pieces_of(b.width + (not b.signed))
                yield f"{a.width} x {b.width} bits, without registers", blocks, (plan.kernel.name,)


def _pooled(
    plans: Sequence[HardwarePlan], slots: Sequence[Sequence[SharedResource]], shared: bool
) -> Iterable[tuple[str, int, tuple[str, ...]]]:
    for group in _groups(range(len(plans)), shared):
        for pool in pools(slots[n] for n in group):
            users = dict.fromkeys(plans[group[kernel]].kernel.name for kernel, _ in pool.users)
            yield str(pool.resource), pool.resource.blocks, tuple(users)


def _groups(items: Sequence[_T], shared: bool) -> list[Sequence[_T]]:
    """Those that share: all, or none."""
    return [items] if shared else [[item] for item in items]
