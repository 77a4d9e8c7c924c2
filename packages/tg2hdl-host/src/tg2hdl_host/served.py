"""Who may use a simulation that `tg2hdl serve` runs: one program at a time, which can read the token of its folder.

client    a line of JSON: {"token": ..., "who": ...}
server    a line of JSON: {} where the client has the simulation from now on, else {"error": ..., "hint": ...}
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from tg2hdl_host.errors import ConnectionFailedError

__all__ = ["TOKEN_VARIABLE", "greet", "token_file", "token_of"]

TOKEN_VARIABLE = "TG2HDL_SERVE_TOKEN"
"""Token of a server that its client itself has started; no file is written then."""
_PATIENCE = 10.0
"""Seconds until a server must have answered."""


def token_file(folder: Path, port: int) -> Path:
    """File of the token of the server that has a TCP port; only its owner can read it.

    Parameters
    ----------
    folder : Path
        In which ``tg2hdl serve`` writes.
    port : int
        TCP port of the server.
    """
    return folder / f"serve-{port}.token"


def token_of(url: str, folder: Path | None) -> str | None:
    """Token for a URL, None where it is not that of a simulation of the folder.

    Parameters
    ----------
    url : str
        ``socket://HOST:PORT`` or ``spi+socket://HOST:PORT``; others have no token.
    folder : Path or None
        In which ``tg2hdl serve`` writes.

    Raises
    ------
    ConnectionFailedError
        When the token cannot be read.
    """
    parts = urlsplit(url)
    if folder is None or parts.scheme not in ("socket", "spi+socket") or not parts.port:
        return None
    path = token_file(folder, parts.port)
    try:
        return path.read_text().strip() if path.is_file() else None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise ConnectionFailedError(
            f"cannot read the token of the simulation, {path}: {reason}",
            stage="link",
            hint="connect as the user who runs `tg2hdl serve`",
        ) from None


def greet(name: str, token: str, write: Callable[[bytes], object], read: Callable[[float], bytes]) -> None:
    """Ask a server for its simulation.

    Parameters
    ----------
    name : str
        URL of the server, for errors.
    write : callable
        Sends bytes.
    read : callable
        ``(seconds) -> bytes``: those that have come, empty after so long.

    Raises
    ------
    ConnectionFailedError
        When the server refuses, with its reason.
    """
    program = Path(sys.argv[0] or "python").name
    write(json.dumps({"token": token, "who": f"{program}, process {os.getpid()}"}).encode() + b"\n")
    found, deadline = b"", time.monotonic() + _PATIENCE
    while not found.endswith(b"\n"):
        found += read(max(0.0, deadline - time.monotonic()))
        if time.monotonic() >= deadline or len(found) > 4096:
            raise ConnectionFailedError(
                f"{name} does not answer as `tg2hdl serve` does", stage="link", hint="start it again"
            )
    try:
        answer = json.loads(found)
        error, hint = answer.get("error"), answer.get("hint")
    except (ValueError, AttributeError):
        error, hint = f"an answer that is not of `tg2hdl serve`: {found[:40]!r}", None
    if error:
        raise ConnectionFailedError(f"{name}: {error}", stage="link", hint=hint)
