"""Objects of other packages by the text ``module:name``, in the command."""

__all__ = ["import_named"]

from importlib import import_module
from typing import Any

from .errors import FloatParameterError


def import_named(text: str) -> Any:
    """Import an object.

    Parameters
    ----------
    text : str
        ``module:name``.

    Raises
    ------
    FloatParameterError
        For a module or a name that is not there.
    """
    module, _, name = text.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise FloatParameterError(f"{text!r} cannot be imported: {error}") from None
