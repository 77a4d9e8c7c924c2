"""A point of an exploration: a design by its options, with its figures."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from tg2hdl.exploration.figures import Figures, PointChoice
from tg2hdl.exploration.widths import Judged
from tg2hdl_top import CompileOptions

if TYPE_CHECKING:
    from tg2hdl.accelerator import Accelerator

__all__ = ["Point", "command_options", "option_changes", "shown"]

_FLAGS = {"share_units": "--share-units", "fold_batchnorm": "--fold-batchnorm"}
_OPTIONS = {
    "multipliers": "--multipliers",
    "target": "--family",
    "float_order": "--float-order",
    "prefer": "--prefer",
    "schedule": "--schedule",
    "weights": "--weights",
    "on_chip_bits": "--on-chip-bits",
    "memory_port": "--memory-port",
}


@dataclass(frozen=True)
class Point:
    """A design of the model, by its options.

    Parameters
    ----------
    settings : mapping of str to Any
        Value of each dimension of the space.
    options : CompileOptions
        Options of the compilation.
    figures : Figures
    bits : str
        Widths of its weights, ``8`` or ``w1=4 w2=8``; empty where the model is taken as it is.
    judged : Judged, optional
        Accuracy of these widths on samples that chose no scale.
    file : str
        File of the model with these widths, where it was written.
    """

    settings: Mapping[str, Any]
    options: CompileOptions = field(repr=False)
    figures: Figures
    bits: str = ""
    judged: Judged | None = field(default=None, repr=False)
    file: str = ""
    _compiled: Callable[[PointChoice], Accelerator] | None = field(default=None, repr=False, compare=False)

    @property
    def choice(self) -> PointChoice:
        """The key of the point."""
        return PointChoice(self.options, self.bits)

    @property
    def accuracy(self) -> float | None:
        """Share of right answers on samples that chose no scale; None where the model is taken as it is."""
        return None if self.judged is None else self.judged.accuracy

    @property
    def loss(self) -> float:
        """Accuracy below that of the float model (percentage points)."""
        return 0.0 if self.judged is None else self.judged.loss

    @property
    def cycles(self) -> int | None:
        """Clock cycles from start to done, exact; None where the program has no such design."""
        return self.figures.cycles

    @property
    def interval(self) -> int | None:
        """Clock cycles from one start to the next, exact."""
        return self.figures.interval

    @property
    def needs(self) -> Mapping[str, int]:
        """Cells: ``bram``, and ``lut``, ``ff`` and ``dsp`` where they are estimated."""
        return self.figures.needs

    @property
    def fmax(self) -> float | None:
        """Expected clock (MHz)."""
        return self.figures.fmax

    @property
    def microseconds(self) -> float | None:
        """Time from start to done at the expected clock."""
        return None if self.fmax is None or self.cycles is None else self.cycles / self.fmax

    @property
    def rate(self) -> float | None:
        """Results per second at the expected clock."""
        return None if self.fmax is None or self.interval is None else self.fmax * 1e6 / self.interval

    @property
    def fits(self) -> bool | None:
        """Whether it fits the part; None where its cells were not estimated."""
        return False if self.figures.refusal else (True if self.figures.is_estimated else None)

    @property
    def is_measured(self) -> bool:
        """Whether cells and clock are those of place and route, not estimates."""
        return bool(self.figures.estimate)

    @property
    def label(self) -> str:
        """Its settings in a line."""
        return ", ".join(f"{name} {shown(value)}" for name, value in self.settings.items())

    @property
    def command_options(self) -> list[str]:
        """Options of the command line for this design, quoted for a shell."""
        return command_options(self.options)

    def command(self, source: str) -> str:
        """Command line that compiles this design.

        Parameters
        ----------
        source : str
            Model in it, e.g. ``model.py``; the file with the widths of this point where there is one.
        """
        return " ".join(
            ["tg2hdl compile", shlex.quote(self.file) if self.file else source, *self.command_options]
        )

    def compile(self) -> Accelerator:
        """Compile this design of the model, with validation."""
        assert self._compiled is not None, "a point of an exploration has its model"
        return self._compiled(self.choice)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        derived: dict[str, Any] = {"microseconds": self.microseconds, "rate": self.rate, "fits": self.fits}
        derived["is_measured"] = self.is_measured
        if self.judged is not None:
            derived |= {"accuracy": self.accuracy, "loss": self.loss, "file": self.file}
        command = " ".join(self.command_options)
        return {
            "settings": dict(self.settings),
            "command_options": command,
            **asdict(self.figures),
            **derived,
        }


def shown(value: Any) -> str:
    """A value of a dimension as text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)


def option_changes(options: CompileOptions) -> dict[str, Any]:
    """Fields of options that are not the defaults."""
    default = CompileOptions()
    changed = {f.name: getattr(options, f.name) for f in fields(options)}
    return {
        n: v
        for n, v in changed.items()
        if v != getattr(default, n) and n not in ("validate", "validate_keep")
    }


def command_options(options: CompileOptions) -> list[str]:
    """Options of the command line that give these options, as far as it has them."""
    found: list[str] = []
    for name, value in option_changes(options).items():
        if name in _FLAGS:
            found.append(_FLAGS[name])
        elif name in _OPTIONS:
            found += [_OPTIONS[name], str(value)]
        elif name == "units":
            for op, unit in value.items():
                found += ["--unit", f"{op}={unit}"]
        elif name == "ports":
            for port in value:
                found += ["--port", port]
    return [shlex.quote(word) for word in found]
