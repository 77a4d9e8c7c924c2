"""Options whose values plugins register: FPGA families, parts and simulation engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from tg2hdl_ir import InputError, registry
from tg2hdl_ir.errors import unknown_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "ENGINE",
    "FAMILY",
    "PART",
    "complete_file",
    "complete_unit",
    "completes",
    "known_families",
    "known_parts",
    "part_for",
]


def known_parts() -> dict[str, str]:
    """Family of each registered part, by the name of the part."""
    return {part.name: part.family for part in registry().targets()}


def known_families() -> tuple[str, ...]:
    """Families that a plan may be made for: those described, those with a part, and those with a unit."""
    plugins = registry()
    described = {family.name for family in plugins.families()}
    units = {unit.target for unit in plugins.units()}
    return tuple(sorted({*described, *known_parts().values(), *units}))


class _Registered(click.ParamType[str]):
    """A name out of those that plugins register, which are looked up only when an option is used."""

    def __init__(self, kind: str) -> None:
        self.name = kind

    def _known(self) -> Iterable[str]:
        return _KNOWN[self.name]()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        known = self._known()
        if value not in known:
            elsewhere = (kind for kind, names in _KNOWN.items() if kind != self.name and value in names())
            notes = tuple(f"{value} is {'an' if kind[0] in 'aeiou' else 'a'} {kind}" for kind in elsewhere)
            raise unknown_name(f"{self.name} {value!r} is unknown", str(value), known, notes=notes)
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(name) for name in self._known() if name.startswith(incomplete)]


def _known_engines() -> tuple[str, ...]:
    return ("auto", *sorted(engine.name for engine in registry().simulators()))


_KNOWN: dict[str, Callable[[], Iterable[str]]] = {
    "part": known_parts,
    "family": known_families,
    "engine": _known_engines,
}

FAMILY = _Registered("family")
PART = _Registered("part")
ENGINE = _Registered("engine")


def complete_file(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Have the shell complete a file.

    Parameters
    ----------
    ctx, param, incomplete
        As of `click.ParamType.shell_complete`.
    """
    return [CompletionItem(incomplete, type="file")]


def complete_unit(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completion of an op with one of its units: ``add=fp32.add.fast``.

    Parameters
    ----------
    ctx, param, incomplete
        As of `click.ParamType.shell_complete`.
    """
    pairs = sorted(f"{unit.op}={unit.name}" for unit in registry().units())
    return [CompletionItem(pair) for pair in pairs if pair.startswith(incomplete)]


def completes(hook: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Completion of the names that plugins register by a hook."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        names = {
            name for plugin in registry().describe()["plugins"] for name in plugin["provides"].get(hook, ())
        }
        return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]

    return complete


def part_for(family: str | None, part: str | None) -> str:
    """Return the part to synthesize for: the given one, else the ECP5-45k or the family's largest part.

    Parameters
    ----------
    family : str or None
        Given by the user; None and ``"generic"`` suit every part.
    part : str or None
        Given by the user.

    Raises
    ------
    InputError
        When the part is of another family than the model is compiled for.
    """
    parts = known_parts()
    suitable = [name for name, its in parts.items() if family in (None, "generic", its)]
    if part is not None and part not in suitable:
        raise InputError(
            f"part {part} is of the family {parts[part]}, the model is compiled for {family}",
            hint=f"leave out --family, or give --family {parts[part]}",
        )
    if not suitable:
        raise InputError(
            f"no part of the family {family!r} is registered",
            hint=f"families with parts: {', '.join(sorted(set(parts.values())))}",
        )
    if part is None and "ecp5-45k" not in suitable:
        return max((t for t in registry().targets() if t.name in suitable), key=lambda t: t.lut).name
    return part or "ecp5-45k"
