"""The command ``tg2hdl``."""

from tg2hdl.cli.main import cli, main

__all__ = ["cli", "main"]
