"""Flags of control that are combined a cycle before they are needed, and wait in a register."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ControlRegisters"]


@dataclass(frozen=True)
class ControlRegisters:
    """Where such registers are.

    Parameters
    ----------
    advances : frozenset of int
        Leaves whose outer loops advance by flags from registers.
    enables : frozenset of (int, int)
        Stores and register writes, each with a gate or clear that is known a cycle before.
    """

    advances: frozenset[int] = frozenset()
    enables: frozenset[tuple[int, int]] = frozenset()
