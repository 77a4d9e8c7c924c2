"""Folders of caches: those that others could have written are not used, and there is always one that can be written.

A cache holds code that is executed: compiled simulations, and the machine code of tools.  As git does with a
repository, a folder is trusted when it belongs to this user (or to root), and nobody else may write to it.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import stat
import tempfile
from functools import cache
from pathlib import Path

import platformdirs

__all__ = ["cache_root", "distrust", "tool_cache", "usable_folder", "with_tool_cache"]

log = logging.getLogger("tg2hdl")

_TOOLS = {
    "YOWASP_CACHE_DIR": lambda: Path(platformdirs.user_cache_dir("YoWASP", appauthor=False)),
    "ZIG_GLOBAL_CACHE_DIR": lambda: Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zig",
}
"""Caches of the tools of other projects: the variable that names each, and where it is without it."""


def cache_root() -> Path:
    """Return the folder of all kinds: ``TG2HDL_CACHE_DIR``, else the user's cache folder."""
    return Path(os.environ.get("TG2HDL_CACHE_DIR") or platformdirs.user_cache_dir("tg2hdl", appauthor=False))


def distrust(folder: Path) -> str | None:
    """Why others could have written into a folder; None where only this user could, or the folder does not exist."""
    if not hasattr(os, "geteuid"):
        return None  # Windows keeps the folders of a user to the user
    try:
        status = folder.stat()
    except OSError:
        return None
    user = os.geteuid()
    owners = {user, 0} | ({int(os.environ.get("SUDO_UID", "0"))} if not user else set())
    if status.st_uid not in owners:
        return f"belongs to {_user_name(status.st_uid)}"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "can be written by others"
    return None


def usable_folder(wanted: Path) -> Path:
    """A folder of a cache, made for this user only where it is missing.

    Where others could have written it, or nothing can be written, it is a temporary one, and a warning says so once.
    """
    reason = _unusable(wanted)
    if reason is None:
        return wanted
    found = _temporary() / wanted.name
    found.mkdir(mode=0o700, exist_ok=True)
    _warn(
        f"the cache {wanted} {reason}; {found} is used instead (set TG2HDL_CACHE_DIR to a folder of your own)"
    )
    return found


def tool_cache(variable: str) -> Path:
    """Cache of a tool of another project, by the variable that names it; within ours where its own is not usable."""
    wanted = Path(os.environ.get(variable) or _TOOLS[variable]())
    if _unusable(wanted) is None:
        return wanted
    ours = usable_folder(cache_root()) / wanted.name
    ours.mkdir(mode=0o700, exist_ok=True)
    return ours


def with_tool_cache(variable: str) -> dict[str, str]:
    """Environment for a tool of another project that has `tool_cache`."""
    return os.environ | {variable: str(tool_cache(variable))}


def _unusable(folder: Path) -> str | None:
    reason = distrust(folder)
    if reason is not None:
        return reason
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError:
        return "is not a folder"
    except OSError as error:
        return f"cannot be made ({error.strerror})"
    return None if os.access(folder, os.W_OK | os.X_OK) else "cannot be written"


@cache
def _warn(text: str) -> None:
    log.warning("%s", text)


def _temporary() -> Path:
    """A folder of this user in the folder for temporary files: the same one for all processes, where it is trusted."""
    if hasattr(os, "geteuid"):
        shared = Path(tempfile.gettempdir()) / f"tg2hdl-{os.geteuid()}"
        try:
            shared.mkdir(mode=0o700, exist_ok=True)
            status = shared.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022:
                return shared
        except OSError:
            pass
    return _temporary_of_process()


@cache
def _temporary_of_process() -> Path:
    folder = tempfile.mkdtemp(prefix="tg2hdl-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _user_name(number: int) -> str:
    try:
        import pwd

        return pwd.getpwuid(number).pw_name
    except (ImportError, KeyError):
        return f"user {number}"
