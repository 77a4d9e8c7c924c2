"""A problem of a plugin: one line with the plugin, its distribution, the hook and a remedy."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PluginProblem"]


@dataclass(frozen=True)
class PluginProblem:
    """A plugin, or one thing that it contributes, that is left out.

    Parameters
    ----------
    plugin, distribution : str
        Name of the plugin, ``distribution:entry point``, and the distribution that installs it.
    reason : str
        The fault.
    hint : str
        A way out.
    hook : str
        The hook that it is about; empty for the plugin as a whole, which is then not loaded.
    """

    plugin: str
    distribution: str
    reason: str
    hint: str
    hook: str = ""

    def __str__(self) -> str:
        hook = f", hook {self.hook}" if self.hook else ""
        return f"plugin {self.plugin!r} of {self.distribution}{hook}: {self.reason}; hint: {self.hint}"
