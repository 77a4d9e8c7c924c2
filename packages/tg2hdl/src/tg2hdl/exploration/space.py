"""The space of an exploration: dimensions with their values, those of plugins too."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from tg2hdl.exploration.points import option_changes
from tg2hdl_ir import InputError, ProgramIR, TargetDef, registry
from tg2hdl_top import CompileOptions

__all__ = ["Space", "space_of"]


@dataclass(frozen=True)
class Space:
    """Values of each dimension; every combination is a point.

    Parameters
    ----------
    values : mapping of str to tuple
    base : CompileOptions
        The options that all points share.
    part : TargetDef
    """

    values: Mapping[str, tuple[Any, ...]]
    base: CompileOptions
    part: TargetDef

    def ladders(self) -> Iterator[list[tuple[dict[str, Any], CompileOptions]]]:
        """Settings and options of all points, in lists that differ only in multipliers."""
        others = {n: v for n, v in self.values.items() if n != "multipliers"}
        for chosen in itertools.product(*others.values()):
            settings = dict(zip(others, chosen, strict=True))
            options = self.base
            for name, value in settings.items():
                options = _with(options, name, value, self.part)
            yield [
                ({"multipliers": n, **settings}, replace(options, multipliers=n))
                for n in self.values["multipliers"]
            ]


def space_of(
    program: ProgramIR,
    part: TargetDef,
    base: CompileOptions,
    *,
    given: Mapping[str, Sequence[Any]],
    allow: Collection[str] = (),
    families: bool = False,
) -> Space:
    """The space of a program.

    Parameters
    ----------
    base : CompileOptions
        Options that differ from the defaults stay.
    given : mapping of str to sequence
        Values of dimensions, or of any field of `CompileOptions`, in place of the usual ones.
    allow : collection of str
        Dimensions that may change numbers, such as ``float_order``.
    families : bool
        Whether the design may be planned for the family of the part, which has another clock.

    Raises
    ------
    InputError
        For an unknown dimension, a value that it cannot have, or one to allow that does not change numbers.
    """
    known = {d.name: d for d in registry().dimensions()}
    options = {f.name for f in fields(CompileOptions)} - {"validate", "validate_keep"}
    names = [*known, *sorted(options - set(known))]
    for name in given:
        if name not in names:
            raise InputError(f"the space has no dimension {name!r}", hint=f"choose among: {', '.join(names)}")
    changing = [d.name for d in known.values() if d.changes_numbers]
    for name in allow:
        if name not in changing:
            raise InputError(f"{name!r} is nothing to allow", hint=f"choose among: {', '.join(changing)}")
    kept = set(option_changes(base)) - set(given)
    values: dict[str, tuple[Any, ...]] = {}
    for name, dimension in known.items():
        if name in given:
            continue
        if name in kept or (name in changing and name not in allow) or (name == "target" and not families):
            if name == "multipliers":
                values[name] = (base.multipliers,)
            continue
        found = tuple(registry().make(dimension, "values", list, program, base, part))
        if len(found) > 1 or name == "multipliers":
            values[name] = found
    for name, chosen in given.items():
        if isinstance(chosen, str) or not isinstance(chosen, Sequence) or not chosen:
            raise InputError(
                f"dimension {name!r} is {chosen!r}, not a list of values",
                hint=f"give e.g. {{{name!r}: [...]}}",
            )
        values[name] = tuple(chosen)
    for name, chosen in values.items():
        for value in chosen:
            _with(base, name, value, part)
    return Space(values, base, part)


def _with(options: CompileOptions, name: str, value: Any, part: TargetDef) -> CompileOptions:
    dimension = next((d for d in registry().dimensions() if d.name == name), None)
    if dimension is None or dimension.apply is None:
        return replace(options, **{name: value})
    return registry().make(dimension, "apply", CompileOptions, options, value, part)
