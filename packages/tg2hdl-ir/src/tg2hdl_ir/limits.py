"""Too little of something in the system, in one line: a full disk, not enough memory."""

from __future__ import annotations

import errno

try:
    import resource  # now: where memory is short, no library can be loaded later
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

from tg2hdl_ir.errors import Tg2hdlError

__all__ = ["little_memory", "memory_limit", "memory_shortage", "refuse_little_memory", "system_error"]

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG}


_LEAST = 250_000_000
"""Address space without which numpy and tinygrad are not even imported: Python may print errors without end (bytes)."""

_LITTLE = 1_000_000_000
"""Address space in which numpy and tinygrad may fail with errors that do not name memory (bytes)."""

_SHORT = ("Cannot allocate memory", "memory allocation of ")
"""Messages that programs, those of WebAssembly too, print when an allocation fails."""


def memory_shortage(printed: str) -> str | None:
    """The limit of `memory_limit` where a program that failed printed that it got no memory."""
    return memory_limit() if any(text in printed for text in _SHORT) else None


def refuse_little_memory() -> None:
    """Raise where ``ulimit -v`` leaves too little for any command.

    Raises
    ------
    Tg2hdlError
        With the limit.
    """
    if (_limit() or _LEAST) < _LEAST:
        raise Tg2hdlError(
            "not enough memory",
            notes=(str(memory_limit()),),
            hint=f"raise the limit: a command takes {_LEAST / 1e9:.2f} GB or more",
        )


def little_memory() -> str | None:
    """`memory_limit` where it is so low that any error may come from it."""
    return memory_limit() if (_limit() or _LITTLE) < _LITTLE else None


def memory_limit() -> str | None:
    """How much memory this process may take, where ``ulimit -v`` limits it."""
    limit = _limit()
    return (
        None if limit is None else f"ulimit -v limits this process to {limit / 1e9:,.1f} GB of address space"
    )


def _limit() -> int | None:
    """Bytes."""
    if resource is None:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def system_error(error: BaseException) -> Tg2hdlError | None:
    """The error of the system as one of ours; None for an error of another kind."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        limit = memory_limit()
        return Tg2hdlError(
            f"not enough memory: {error}" if str(error) else "not enough memory",
            notes=() if limit is None else (limit,),
            hint="raise the limit" if limit else "end other programs, or make the model smaller",
        )
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return Tg2hdlError(
            f"cannot write {error.filename or 'a file'}: {error.strerror}",
            hint="free some space; TMPDIR names the folder of temporary files, TG2HDL_CACHE_DIR that of the cache",
        )
    return None
