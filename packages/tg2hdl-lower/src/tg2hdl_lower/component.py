"""The base of the components that may be made to be looked at: Amaranth does not warn when they are never built."""

from __future__ import annotations

from amaranth.lib import wiring

__all__ = ["Component"]


class Component(wiring.Component):
    """A component that may stay unused; Amaranth itself can silence the warning only by file of the caller."""

    _MustUse__silence = True
