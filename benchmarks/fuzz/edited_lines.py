"""Lines of rewrites that are edited, as a slip of a programmer would be."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["EDITS", "Edit"]


@dataclass(frozen=True)
class Edit:
    """One line of a module that is another one.

    Parameters
    ----------
    name : str
        The rewrite.
    module : str
    old, new : str
        Text that is there once, and what takes its place.
    """

    name: str
    module: str
    old: str
    new: str
    what: str

    def install(self) -> None:
        """Execute the edited module in its place, and give its functions to all who imported them."""
        module = importlib.import_module(self.module)
        assert module.__file__ is not None, "a source file"
        source = Path(module.__file__).read_text()
        assert source.count(self.old) == 1, f"{self.module} has {self.old!r} {source.count(self.old)} times"
        before = dict(vars(module))
        exec(compile(source.replace(self.old, self.new), module.__file__, "exec"), vars(module))  # noqa: S102
        from passes import put

        for name, old in before.items():
            new = vars(module).get(name)
            if new is not old and getattr(old, "__module__", "") == self.module:
                put(old, new)
        sys.modules[self.module] = module


EDITS: list[Edit] = []
