"""Products that take turns on multipliers: the first free cycle of a multiplier for each, at a given interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tg2hdl_lower.plan.operations import DesignProduct
from tg2hdl_lower.plan.placement import Placement

__all__ = ["MultiplierTurns"]


@dataclass
class _Turn:
    """A cycle of a multiplier, modulo the interval: products of different leaves that start in the same cycle."""

    issue: int
    products: dict[int, int] = field(default_factory=dict)
    """Number of the product by leaf."""


class MultiplierTurns:
    """Which multiplier starts which product in which cycle.

    Parameters
    ----------
    ii : int
        Cycles from step to step.
    multipliers : mapping of str to int
        Multipliers by the keys of products; those of a key have consecutive ports.
    """

    def __init__(self, ii: int, multipliers: Mapping[str, int]) -> None:
        self.ii = ii
        self.ports: dict[str, range] = {}
        first = 0
        for key in sorted(multipliers):
            self.ports[key] = range(first, first + multipliers[key])
            first += multipliers[key]
        self.late: dict[int, int] = {}
        """When products of other leaves have to start, so that those of a later leaf share their multiplier."""
        self._turns: dict[tuple[int, int], _Turn] = {}

    def clear(self) -> None:
        """Forget all that was placed."""
        self.late = {}
        self._turns = {}

    def take(self, node: DesignProduct, earliest: Placement) -> Placement:
        """The first free turn of a multiplier for this product.

        Parameters
        ----------
        node : DesignProduct
        earliest : Placement
            Where its operands are ready.
        """
        ports = self.ports[node.key]
        for issue in range(earliest.issue, earliest.issue + self.ii):
            for port in ports:
                turn = self._turns.setdefault((port, issue % self.ii), _Turn(issue))
                if not turn.products or (turn.issue == issue and node.leaf not in turn.products):
                    turn.issue = issue
                    turn.products[node.leaf] = node.number
                    wait = issue - earliest.issue
                    return earliest._replace(issue=issue, stage=earliest.stage + wait, port=port)
        return self._delay_others(node, earliest, ports)

    def _delay_others(self, node: DesignProduct, earliest: Placement, ports: range) -> Placement:
        """Ask the products of other leaves that started earlier to wait; steps of two leaves are never the same."""
        for (port, _), turn in self._turns.items():
            if port in ports and node.leaf not in turn.products:
                issue = max(turn.issue, earliest.issue + (turn.issue - earliest.issue) % self.ii)
                if issue > turn.issue:
                    self.late |= dict.fromkeys(turn.products.values(), issue)
                    turn.issue = issue
                turn.products[node.leaf] = node.number
                return earliest._replace(
                    issue=issue, stage=earliest.stage + issue - earliest.issue, port=port
                )
        raise AssertionError("a step has as many turns as its busiest leaf has products")
