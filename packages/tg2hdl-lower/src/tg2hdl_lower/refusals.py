"""Kernels that cannot be planned, and plans that must not be."""

from __future__ import annotations

from tg2hdl_ir import (
    BudgetError,
    InputError,
    IRBufStore,
    IRVerificationError,
    KernelIR,
    registry,
)
from tg2hdl_lower.sharing.budget import MultiplierBudget

__all__ = ["check_family", "check_stores", "too_few_multipliers"]


def check_stores(kernel: KernelIR, flat: KernelIR) -> None:
    """Check that no pass has lost a store of the kernel.

    Parameters
    ----------
    kernel : KernelIR
    flat : KernelIR
        The kernel after these passes.

    Raises
    ------
    IRVerificationError
        When a buffer is not written any more.
    """
    before, after = (
        {s.buf_idx for s in each.loop_tree.statements() if isinstance(s, IRBufStore)}
        for each in (kernel, flat)
    )
    if before != after:
        lost = ", ".join(f"b{n}" for n in sorted(before - after))
        raise IRVerificationError(
            f"planning lost the stores to {lost}",
            where=kernel.name,
            hint="this is a bug of tg2hdl; another number of multipliers may avoid it",
        )


def check_family(name: str) -> None:
    """Refuse a family that no part and no unit is of."""
    plugins = registry()
    known = {family.name for family in plugins.families()}
    if name in known:
        return
    known |= {part.family for part in plugins.targets()} | {unit.target for unit in plugins.units()}
    if name not in known:
        raise InputError(
            f"target={name!r} is unknown",
            hint=f"choose a family: {', '.join(sorted(known))}",
        )


def too_few_multipliers(budget: MultiplierBudget, where: str) -> BudgetError:
    """The error for products that need more multipliers than there are.

    Parameters
    ----------
    budget : MultiplierBudget
        With its least number of multipliers.
    where : str
        Of the kernel.
    """
    kinds = [f"{count} of {key}" for key, count in budget.products.items()]
    kinds += [f"{budget.private} whose result the next step waits for"] if budget.private else []
    return BudgetError(
        f"a step has products that cannot take turns on the same multiplier: {', '.join(kinds)}; "
        f"it needs at least {budget.least} multipliers, which is more than multipliers={budget.limit}",
        where=where,
        hint=f"give multipliers={budget.least} or more, or exceed_multipliers=True",
    )
