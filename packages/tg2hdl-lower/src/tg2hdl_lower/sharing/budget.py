"""The budget of multipliers: how many each format of products has at an initiation interval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from tg2hdl_lower.memory.demand import PortInterval
from tg2hdl_lower.plan.graph import NodeGraph
from tg2hdl_lower.plan.node import Node
from tg2hdl_lower.plan.operations import ConstantProduct, DesignProduct, Operation
from tg2hdl_lower.plan.values import Constant

__all__ = ["MultiplierBudget", "is_private"]


@dataclass(frozen=True)
class MultiplierBudget:
    """Products of a kernel, and the multipliers that they may use.

    Parameters
    ----------
    limit : int
        Multipliers.
    products : mapping of str to int
        Products of a step of the busiest leaf, by their keys.
    private : int
        Multipliers of single products: of a recurrence without registers.
    """

    limit: int
    products: Mapping[str, int]
    private: int

    @classmethod
    def of(cls, flow: NodeGraph, limit: int) -> MultiplierBudget:
        """Budget of a kernel's nodes.

        Parameters
        ----------
        flow : NodeGraph
        limit : int
            Multipliers of the design.
        """
        leaves = Counter((n.leaf, n.key) for n in flow.all(DesignProduct))
        products: dict[str, int] = {}
        for (_, key), count in leaves.items():
            products[key] = max(products.get(key, 0), count)
        return cls(limit, products, sum(is_private(n, flow.nodes) for n in flow.all(Operation)))

    @property
    def least(self) -> int:
        """Multipliers at any interval."""
        return self.private + len(self.products)

    def multipliers(self, ii: int) -> dict[str, int] | None:
        """Multipliers by key with which a step every `ii` cycles stays in the budget; None where it cannot."""
        found = {key: -(-count // ii) for key, count in self.products.items()}
        return found if sum(found.values()) + self.private <= self.limit else None

    @property
    def interval(self) -> PortInterval:
        """Smallest interval that stays in the budget, which at least `least` multipliers have."""
        ii = next(
            n for n in range(1, 2 + max(self.products.values(), default=0)) if self.multipliers(n) is not None
        )
        count = sum(self.products.values())
        left = self.limit - self.private
        return PortInterval(ii, f"{count} products take turns on {left} multiplier{'' if left == 1 else 's'}")


def is_private(node: Operation, nodes: Mapping[int, Node]) -> bool:
    """Whether a product has a multiplier of its own; one by a constant or by two bits is a few additions.

    Parameters
    ----------
    node : Operation
    nodes : mapping of int to Node
        Of the same kernel, by number.
    """
    if node.op != "mul" or node.dtype.is_bool or isinstance(node, DesignProduct | ConstantProduct):
        return False
    factors = [nodes[n] for n in node.sources]
    narrow = not node.dtype.is_float and min(f.width for f in factors) <= 2
    return not narrow and not any(isinstance(f, Constant) for f in factors)
