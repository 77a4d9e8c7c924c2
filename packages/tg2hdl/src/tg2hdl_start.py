"""Entry point of the command ``tg2hdl``: Ctrl-C ends it with one line while Python still imports it, too."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command, as `tg2hdl.cli.main` says."""
    try:
        from tg2hdl.cli import main as run

        run()
    except KeyboardInterrupt:
        print("\nstopped" if sys.stderr.isatty() else "stopped", file=sys.stderr)
        sys.exit(130)
