"""Options of a tinygrad device, given in tinygrad's target string: ``DEV=HDL::engine=golden,multipliers=16``."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

from tg2hdl_ir.errors import InputError
from tg2hdl_ir.plugins.registry import registry

__all__ = ["POSITIVE", "TargetOptions", "engine_names"]

POSITIVE = "1, 2, ..."


def engine_names(*others: str) -> str:
    """These names and those of all simulation engines, as `TargetOptions.allowed` has them."""
    return "|".join([*others, *sorted(engine.name for engine in registry().simulators())])


@dataclass(frozen=True)
class TargetOptions:
    """A subclass has a field with a default for each option: a name or a positive integer.

    Attributes
    ----------
    device : str
        tinygrad's name of the device.
    """

    device: ClassVar[str]

    @classmethod
    def allowed(cls) -> dict[str, str]:
        """Values of each option for a reader: names with ``|`` between them, or `POSITIVE`."""
        raise NotImplementedError

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``name=value`` pairs that are separated by commas.

        Raises
        ------
        InputError
            For an unknown option or value.
        """
        options, where = cls(), f"DEV={cls.device}::{text}"
        for item in filter(None, text.split(",")):
            name, _, value = item.partition("=")
            allowed = cls.allowed()
            if name not in allowed:
                hint = "allowed: " + ", ".join(f"{n}={v}" for n, v in allowed.items())
                raise InputError(f"unknown device option {name!r}", where=where, hint=hint)
            changed = options.changed(name, value)
            if changed is None:
                raise InputError(
                    f"device option {name} cannot be {value!r}", where=where, hint=f"allowed: {allowed[name]}"
                )
            options = changed
        return options

    def changed(self, name: str, value: str) -> Self | None:
        """Copy with one option replaced; None if the value is invalid.

        Parameters
        ----------
        name : str
            Field of this class.
        value : str
            As written in the target string.
        """
        change: dict[str, Any] = {name: value}
        if isinstance(getattr(self, name), int):
            change[name] = int(value) if value.isdecimal() else 0
            return replace(self, **change) if change[name] else None
        return replace(self, **change) if value in self.allowed()[name].split("|") else None

    def __str__(self) -> str:
        """The options that differ from their defaults, as `parse` reads it."""
        own = [(f.name, getattr(self, f.name), f.default) for f in fields(self)]
        return ",".join(f"{n}={v}" for n, v, default in own if isinstance(v, str | int) and v != default)
