"""Lookups of ops, arithmetic units and combinational lowerings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.errors import InputError, PluginError, UnsupportedError, unknown_name
from tg2hdl_ir.plugins.descriptors import ArithmeticUnit, OpDef, OpLowering, resolve
from tg2hdl_ir.plugins.plugin_set import PluginSet
from tg2hdl_ir.plugins.selection import best_lowering, best_unit

__all__ = ["ArithmeticSet"]


class ArithmeticSet(PluginSet):
    """Plugins and arithmetic: the unit or lowering of an op, and its golden result."""

    def op(self, name: str) -> OpDef:
        """Return the op of a name.

        Raises
        ------
        UnsupportedError
            When no plugin registers it.
        PluginError
            When two plugins do.
        """
        self._load()
        found = self._catalog.get("tg2hdl_ops", name)
        if found is None:
            raise UnsupportedError(
                f"unknown op {name!r}",
                notes=self.notes(),
                hint="known: " + ", ".join(self._catalog.names("tg2hdl_ops")) + "; a plugin may add others",
            )
        return found  # type: ignore[no-any-return]

    def ops(self) -> tuple[OpDef, ...]:
        """All ops, by name."""
        return self._all("tg2hdl_ops", OpDef, lambda d: d.name)

    def units(
        self,
        op: str | None = None,
        operands: tuple[DType, ...] | None = None,
        result: DType | None = None,
    ) -> tuple[ArithmeticUnit, ...]:
        """Arithmetic units, all or those that match exactly; highest priority first.

        Parameters
        ----------
        op : str, optional
            Only units of this op, these operand types and this result type; None matches all.
        operands : tuple of DType, optional
            Only units of this op, these operand types and this result type; None matches all.
        result : DType, optional
            Only units of this op, these operand types and this result type; None matches all.
        """
        key = ("units", op, operands, result)
        if key not in self._cache:
            found = self._all("tg2hdl_arithmetic_units", ArithmeticUnit, lambda u: (-u.priority, u.name))
            self._cache[key] = tuple(
                u
                for u in found
                if op in (None, u.op) and operands in (None, u.operands) and result in (None, u.result)
            )
        return self._cache[key]  # type: ignore[no-any-return]

    def select_unit(
        self,
        op: str,
        operands: tuple[DType, ...],
        result: DType,
        *,
        target: str = "generic",
        explicit: Mapping[str, str | Sequence[str]] | None = None,
    ) -> ArithmeticUnit | None:
        """Choose the unit of an op.

        Among units with these formats: the user's explicit choice, then that of a policy plugin, then units for the
        target before generic ones, then the highest priority.

        Parameters
        ----------
        target : str
            Target family; units of other families are not considered.
        explicit : mapping, optional
            Unit names by op: one, or several of different formats.  Named units of other formats are passed over.

        Returns
        -------
        ArithmeticUnit or None
            None when no unit matches.

        Raises
        ------
        InputError
            On an explicit name that no plugin registers.
        PluginError
            On a tie, and when a policy returns something else.
        """
        names = _names(explicit, op)
        key = ("select", op, operands, result, target, names)
        if key not in self._cache:
            if names:
                self._check_names(op, names)
            self._cache[key] = best_unit(
                self.units(op, operands, result),
                target,
                names,
                lambda candidates: self.policy(op, operands, result, candidates),
                self.distribution,
            )
        return self._cache[key]  # type: ignore[no-any-return]

    def policy(
        self, op: str, operands: tuple[DType, ...], result: DType, candidates: list[ArithmeticUnit]
    ) -> ArithmeticUnit | None:
        """Choice of the first policy plugin that makes one.

        Parameters
        ----------
        op : str
        operands : tuple of DType
        result : DType
        candidates : list of ArithmeticUnit
            Units that match, highest priority first; a policy that returns None leaves the choice to the next.

        Raises
        ------
        PluginError
            When a policy raises; results may depend on it, so the error is not ignored.
        """
        self._load()
        given = {"op": op, "operands": operands, "result": result, "candidates": candidates}
        for plugin, implementation in reversed(self._loader.implementations("tg2hdl_select_unit")):
            try:
                chosen = implementation.function(*(given[name] for name in implementation.argnames))
            except Exception as error:
                raise PluginError(
                    f"the policy tg2hdl_select_unit of plugin {plugin!r} raised {type(error).__name__}: {error}",
                    where=f"op {op!r}",
                    hint=self._loader.remedy(plugin),
                ) from error
            if chosen is None:
                continue
            if chosen not in candidates:
                raise PluginError(
                    f"the policy tg2hdl_select_unit of plugin {plugin!r} chose {chosen!r:.80} for op {op!r}, "
                    "which is not a candidate",
                    hint="return one of the candidates, or None",
                )
            return chosen  # type: ignore[no-any-return]
        return None

    def check_units(self, explicit: Mapping[str, str | Sequence[str]]) -> None:
        """Check an explicit choice of units.

        Raises
        ------
        InputError
            For an op that nothing registers, or a unit that is not of its op.
        """
        for op in explicit:
            try:
                self.op(op)
            except UnsupportedError as error:
                raise InputError(
                    f"a unit is chosen for op {op!r}, which nothing registers",
                    notes=error.notes,
                    hint=error.hint,
                ) from error
            self._check_names(op, _names(explicit, op))

    def _check_names(self, op: str, names: Sequence[str]) -> None:
        known = {u.name for u in self.units(op)}
        for name in names:
            if name not in known:
                message = f"no unit for op {op!r} is named {name!r}"
                raise unknown_name(message, name, sorted(known), notes=self.notes())

    def evaluation(
        self,
        op: str,
        operands: tuple[DType, ...],
        result: DType,
        *,
        target: str = "generic",
        explicit: Mapping[str, str | Sequence[str]] | None = None,
    ) -> Callable[..., Any]:
        """Golden evaluation of an op: that of the selected unit when it has one, else that of the op.

        Where all candidate units agree, none needs to be selected.

        Parameters
        ----------
        op : str
            Name.
        operands : tuple of DType
            Types.
        result : DType
            Types.
        target : str, default "generic"
            FPGA family; units of other families are left out.
        explicit : mapping of str to str or sequence of str, optional
            The user's choice of units: one name or several, by op.
        """
        names = _names(explicit, op)
        eligible = [
            u for u in self.units(op, operands, result) if u.target in ("generic", target) or u.name in names
        ]
        goldens = list(dict.fromkeys(u.golden for u in eligible))
        golden = goldens[0] if len(goldens) == 1 else None
        if len(goldens) > 1:
            unit = self.select_unit(op, operands, result, target=target, explicit=explicit)
            golden = None if unit is None else unit.golden
        return resolve(self.op(op).evaluate if golden is None else golden)

    def lowerings(self, op: str | None = None) -> tuple[OpLowering, ...]:
        """Combinational lowerings, all or those of an op; highest priority first."""
        found = self._all("tg2hdl_op_lowerings", OpLowering, lambda d: (-d.priority, d.name))
        return tuple(d for d in found if op in (None, d.op))

    def select_lowering(self, op: str, operands: tuple[DType, ...], result: DType) -> OpLowering | None:
        """Combinational lowering of highest priority that matches; None without one.

        Parameters
        ----------
        op : str
            Name.
        operands : tuple of DType
            Their types.
        result : DType
            Its type.

        Raises
        ------
        PluginError
            On a tie.
        """
        key = ("lowering", op, operands, result)
        if key not in self._cache:
            self._cache[key] = best_lowering(
                self.lowerings(op), operands, result, self.distribution, self.plugin
            )
        return self._cache[key]  # type: ignore[no-any-return]


def _names(explicit: Mapping[str, str | Sequence[str]] | None, op: str) -> tuple[str, ...]:
    names = (explicit or {}).get(op, ())
    return (names,) if isinstance(names, str) else tuple(names)
