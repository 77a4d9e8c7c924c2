"""Errors raised for parameters that a core or a format cannot take."""

__all__ = ["FloatParameterError", "FloatTypeError", "ToolNotInstalledError", "one_of"]

from collections.abc import Iterable


class FloatParameterError(ValueError):
    """A parameter has a value that is not allowed; the message names the allowed ones."""


class FloatTypeError(TypeError):
    """A parameter has the wrong type; the message names the expected one."""


class ToolNotInstalledError(RuntimeError):
    """A tool is not there; the message has the command that installs it."""


def one_of(allowed: Iterable[object]) -> str:
    """Return the allowed values as text for an error message."""
    return ", ".join(str(item) for item in allowed)
