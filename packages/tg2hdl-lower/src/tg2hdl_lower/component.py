"""Base class of components that may be constructed without being elaborated: Amaranth does not warn about them."""

from __future__ import annotations

from amaranth.lib import wiring

__all__ = ["Component"]


class Component(wiring.Component):
    """A component that may stay unused; Amaranth itself can silence the warning only by file of the caller.

    Parameters
    ----------
    signature, src_loc_at
        As in `amaranth.lib.wiring.Component`.
    """

    _MustUse__silence = True
