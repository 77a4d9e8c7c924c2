"""The error hierarchy: every refusal says what, where, and what to do instead."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
    "BudgetError",
    "CapacityError",
    "IRVerificationError",
    "InputError",
    "PluginError",
    "SimulationError",
    "Tg2hdlError",
    "ToolMissingError",
    "UnsupportedError",
    "ValidationError",
    "model_place",
    "unknown_name",
]


class Tg2hdlError(Exception):
    """Base of all errors that a user can act on.

    Parameters
    ----------
    message : str
        The fault, with the offending value and the expected one.
    where : str, optional
        Place in the user's terms: kernel, op, dtype, argument or file.
    notes : tuple of str, optional
        Further facts, a line each.
    hint : str, optional
        A way out.
    """

    kind = "error"
    exit_status = 1
    """Of the commands."""

    def __init__(
        self, message: str, *, where: str | None = None, notes: tuple[str, ...] = (), hint: str | None = None
    ) -> None:
        self.message = message
        self.where = where
        self.notes = notes
        self.hint = hint
        super().__init__(message, where, notes, hint)

    def __str__(self) -> str:
        lines = [f"{self.kind}: {self.message}"]
        if self.where:
            lines.append(f"  at: {self.where}")
        lines.extend(f"  note: {note}" for note in self.notes)
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.where, self.notes, self.hint)


def _rebuild(
    cls: type[Tg2hdlError], message: str, where: str | None, notes: tuple[str, ...], hint: str | None
) -> Tg2hdlError:
    return cls(message, where=where, notes=notes, hint=hint)


class UnsupportedError(Tg2hdlError):
    """A construct that cannot be compiled."""

    kind = "unsupported"


class BudgetError(UnsupportedError):
    """A kernel that needs more than its options allow: multipliers, or cycles of a step."""


class InputError(Tg2hdlError):
    """An argument, shape, dtype or file that does not fit."""

    kind = "bad input"


def unknown_name(message: str, name: str, known: Iterable[str], *, notes: tuple[str, ...] = ()) -> InputError:
    """Error about a name of the user that nothing has.

    Parameters
    ----------
    message : str
        Says that there is no such name.
    name : str
        As the user wrote it.
    known : iterable of str
        Existing names; the hint suggests one that is close.
    notes : tuple of str, optional
        Further facts.
    """
    names = list(known)
    meant = [f"did you mean {close}? " for close in get_close_matches(name, names, 1)]
    hint = "".join(meant) + "choose one of: " + ", ".join(names) if names else "none is registered"
    return InputError(message, notes=notes, hint=hint)


class IRVerificationError(Tg2hdlError):
    """An IR or plan that breaks its own rules: a bug of the pass that made it."""

    kind = "invalid IR"


class ValidationError(Tg2hdlError):
    """A rewrite that changed a result: a bug of tg2hdl, or of the plugin whose pass it is."""

    kind = "compiler bug"
    exit_status = 3


class PluginError(Tg2hdlError):
    """A plugin that fails to load, or two that conflict."""

    kind = "plugin"


class ToolMissingError(Tg2hdlError):
    """An external tool or wheel that is needed and not there."""

    kind = "missing tool"


class SimulationError(Tg2hdlError):
    """A simulation that cannot run or does not end."""

    kind = "simulation"


class CapacityError(Tg2hdlError):
    """A design that does not fit its target."""

    kind = "capacity"


def model_place(name: str) -> str:
    """Place of an error: ``model net``, or ``model`` for one of that name."""
    return "model" if name == "model" else f"model {name}"
