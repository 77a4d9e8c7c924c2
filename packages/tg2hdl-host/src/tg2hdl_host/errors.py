"""Errors of the driver; each says what, where and a way out."""

from __future__ import annotations

__all__ = [
    "ConnectionFailedError",
    "HostError",
    "LinkError",
    "RefusedError",
    "UnfitInputError",
    "WrongDesignError",
    "WrongResultError",
]


class HostError(Exception):
    """Base of all errors of this package.

    Parameters
    ----------
    message : str
    stage : str
        Action of the host: ``link``, ``identity``, ``write x``, ``run``, ``read output``.
    hint : str, optional
        A way out.
    """

    def __init__(self, message: str, *, stage: str, hint: str | None = None) -> None:
        self.message, self.stage, self.hint = message, stage, hint
        super().__init__(message, stage, hint)

    def __str__(self) -> str:
        text = f"{self.message}\n  at: {self.stage}"
        return text if self.hint is None else f"{text}\n  hint: {self.hint}"


class ConnectionFailedError(HostError):
    """The device cannot be opened, or is another kind of device."""


class LinkError(HostError):
    """A stage did not answer, or answered damaged, again and again."""


class RefusedError(HostError):
    """The hardware refused an access."""


class WrongDesignError(HostError):
    """The device holds another design than the one that is expected."""


class UnfitInputError(HostError, ValueError):
    """An input or a weight of another shape or type."""


class WrongResultError(HostError):
    """A stored vector gave another result."""
