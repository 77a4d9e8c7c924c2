"""``python -m tg2hdl_tpu``: the command ``tg2hdl tpu`` without the compiler."""

from __future__ import annotations

import sys

import click

from tg2hdl_ir import Tg2hdlError
from tg2hdl_tpu.cli import tpu


def main() -> None:
    """Run the command; an error of the user's is a text and the exit status 1."""
    try:
        tpu(prog_name="python -m tg2hdl_tpu")
    except Tg2hdlError as error:
        click.echo(str(error), err=True)
        sys.exit(error.exit_status)


if __name__ == "__main__":
    main()
