"""Factories in descriptors: a callable, or a string that is imported when it is first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from tg2hdl_ir.errors import PluginError, Tg2hdlError

__all__ = ["Factory", "resolve"]

Factory = Callable[..., Any] | str


def resolve(factory: Factory) -> Callable[..., Any]:
    """Import a ``"module:attribute"`` factory; callables pass through.

    Raises
    ------
    PluginError
        When the module or the attribute cannot be imported.
    """
    if not isinstance(factory, str):
        return factory
    module, _, attribute = factory.partition(":")
    try:
        target: Any = importlib.import_module(module)
        for part in attribute.split("."):
            target = getattr(target, part)
    except Tg2hdlError:
        raise
    except Exception as error:  # whatever a module does when it is imported
        raised = "" if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: "
        raise PluginError(
            f"cannot import {factory!r}: {raised}{error}", hint="reinstall the distribution that registers it"
        ) from error
    if not callable(target):
        raise PluginError(f"{factory!r} is not callable", hint="name a function or class")
    return target  # type: ignore[no-any-return]
