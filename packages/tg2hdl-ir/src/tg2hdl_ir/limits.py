"""Too little of something in the system, in one line: a full disk, not enough memory."""

from __future__ import annotations

import errno

from tg2hdl_ir.errors import Tg2hdlError

__all__ = ["memory_limit", "memory_shortage", "system_error"]

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG}


_SHORT = ("Cannot allocate memory", "memory allocation of ")
"""What programs, those of WebAssembly too, print when they get no memory."""


def memory_shortage(printed: str) -> str | None:
    """The limit of `memory_limit` where a program that failed printed that it got no memory."""
    return memory_limit() if any(text in printed for text in _SHORT) else None


def memory_limit() -> str | None:
    """How much memory this process may take, where ``ulimit -v`` limits it."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    return f"ulimit -v limits this process to {limit / 1e9:,.1f} GB of address space"


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
