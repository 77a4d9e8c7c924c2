"""Widths of the weights of each layer: all choices where they are few, else those that a sampler or a descent finds.

Only the front of quality against bits of weights is planned, with equal widths for all layers.
"""

from __future__ import annotations

import importlib
import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Judged", "Widths", "chosen_widths", "widths_name"]

_ENUMERATED = 64
"""Choices up to which all are judged."""
_SAMPLED = 40
"""Choices that a sampler judges after the descent."""
_PLANNED = 6
"""Choices that are planned, in addition to equal widths for all layers."""


@dataclass(frozen=True)
class Judged:
    """Quality of a choice on samples that chose no scale.

    Parameters
    ----------
    accuracy : float
        Share of right answers.
    loss : float
        Below that of the float model (percentage points); negative where it is better.
    measure : str
        Name of the accuracy.
    """

    accuracy: float
    loss: float
    measure: str


@dataclass(frozen=True)
class Widths:
    """Width of the weights of each layer (bits), with the quality."""

    bits: Mapping[str, int]
    judged: Judged

    @property
    def name(self) -> str:
        """``8`` for equal widths, else ``w1=4 w2=8``."""
        return widths_name(self.bits)


def widths_name(bits: Mapping[str, int]) -> str:
    """Name of the widths of layers."""
    equal = set(bits.values())
    return str(equal.pop()) if len(equal) == 1 else " ".join(f"{n}={b}" for n, b in bits.items())


def chosen_widths(
    sizes: Mapping[str, int], widths: Sequence[int], judged: Callable[[Mapping[str, int]], Judged]
) -> list[Widths]:
    """The front of loss against bits of weights, and equal widths for all layers.

    Parameters
    ----------
    sizes : mapping of str to int
        Weights of each layer.
    widths : sequence of int
        The widest first.
    judged : callable
        Quality of the widths of all layers.
    """
    found: dict[tuple[int, ...], Widths] = {}

    def look(choice: Sequence[int]) -> Widths:
        key = tuple(choice)
        if key not in found:
            bits = dict(zip(sizes, key, strict=True))
            found[key] = Widths(bits, judged(bits))
        return found[key]

    equal = [look((width,) * len(sizes)) for width in widths]
    if len(widths) ** len(sizes) <= _ENUMERATED:
        for choice in itertools.product(widths, repeat=len(sizes)):
            look(choice)
    else:
        _descend(widths, len(sizes), look)
        _sample(sizes, widths, found, look)

    def cost(each: Widths) -> int:
        return sum(sizes[n] * b for n, b in each.bits.items())

    front: list[Widths] = []
    for each in sorted(found.values(), key=lambda w: (cost(w), w.judged.loss)):
        if not front or each.judged.loss < front[-1].judged.loss:
            front.append(each)
    mixed = [w for w in front if w not in equal]
    step = max(1.0, len(mixed) / _PLANNED)
    return [*equal, *(mixed[-1 - int(n * step)] for n in range(min(_PLANNED, len(mixed))))]


def _descend(widths: Sequence[int], layers: int, look: Callable[[Sequence[int]], Widths]) -> None:
    """Narrow the layer that costs least, again and again."""
    place = [0] * layers
    while open_layers := [n for n in range(layers) if place[n] < len(widths) - 1]:

        def narrower(n: int, place: Sequence[int] = tuple(place)) -> list[int]:
            return [widths[p + (k == n)] for k, p in enumerate(place)]

        best = min(open_layers, key=lambda n: look(narrower(n)).judged.loss)
        place[best] += 1


def _sample(
    sizes: Mapping[str, int],
    widths: Sequence[int],
    found: Mapping[tuple[int, ...], Widths],
    look: Callable[[Sequence[int]], Widths],
) -> None:
    """Let Optuna choose further ones, where it is installed; its seed is fixed."""
    try:
        optuna = importlib.import_module("optuna")
    except ImportError:
        return
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    layers = list(sizes)
    space = {n: optuna.distributions.CategoricalDistribution(tuple(widths)) for n in layers}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = optuna.samplers.NSGAIISampler(seed=0, population_size=16)
        study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)

        def values(each: Widths) -> list[float]:
            return [each.judged.loss, math.fsum(sizes[n] * b for n, b in each.bits.items())]

        for each in found.values():
            known = optuna.trial.create_trial(
                params=dict(each.bits), distributions=space, values=values(each)
            )
            study.add_trial(known)
        for _ in range(_SAMPLED):
            trial = study.ask(space)
            study.tell(trial, values(look([trial.params[n] for n in layers])))
