"""Entry point of the command ``tg2hdl``: Ctrl-C ends it with one line while Python still imports it, too."""

from __future__ import annotations

import os
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command, as `tg2hdl.cli.main` says."""
    _open_closed_streams()
    try:
        from tg2hdl.cli import main as run

        run()
    except KeyboardInterrupt:
        print("\nstopped" if sys.stderr.isatty() else "stopped", file=sys.stderr)
        sys.exit(130)


def _open_closed_streams() -> None:
    """Open the null device for streams that the caller has closed; else a file of the command gets their number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))
