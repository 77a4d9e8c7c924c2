"""``tg2hdl serve``: a simulated board behind a socket."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tg2hdl.cli.output import with_json, write_json
from tg2hdl.serve import serve_folder

__all__ = ["serve_command"]


@click.command("serve")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--tcp-port", default=0, help="Port on this machine.  [default: a free one]")
@click.option("--engine", default="auto", show_default=True, help="Simulation engine.")
@with_json
def serve_command(folder: Path, tcp_port: int, engine: str, json_file: str | None) -> None:
    """Simulate the design of a folder that `tg2hdl build` wrote, for one host.

    Prints the URL for `tg2hdl.connect`, then carries bytes between the socket and the serial line until the
    host disconnects.
    """

    def ready(url: str) -> None:
        write_json(json_file, {"url": url})
        click.echo(url, err=json_file == "-")
        sys.stdout.flush()

    serve_folder(folder, port=tcp_port, engine=engine, ready=ready)
