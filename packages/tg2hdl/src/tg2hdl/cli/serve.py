"""``tg2hdl serve``: a simulated board behind a socket, or a device behind HTTP."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click

from tg2hdl.cli.output import with_json, write_json
from tg2hdl.serve import serve_folder
from tg2hdl_host import HostError, InferenceSession
from tg2hdl_host.http_server import InferenceServer
from tg2hdl_host.open_inference import ModelServer
from tg2hdl_ir import InputError

__all__ = ["serve_command"]


_EPILOG = """\b
Examples:
  tg2hdl serve build/digits             simulation, for tg2hdl.connect(URL, "build/digits")
  tg2hdl serve build/digits --http      the same for any program, by the open inference protocol (KServe v2)
  tg2hdl serve build/digits --http --device /dev/ttyUSB0
"""


@click.command("serve", epilog=_EPILOG)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--http", "by_http", is_flag=True, help="Serve the model by HTTP until Ctrl-C.")
@click.option(
    "--device", metavar="NAME", help="With --http: a board as for `tg2hdl selftest`.  [default: simulate:DIR]"
)
@click.option("--host", default="127.0.0.1", show_default=True, help="With --http: where to listen.")
@click.option("--tcp-port", type=click.IntRange(0, 65535), default=0, help="Port.  [default: a free one]")
@click.option("--engine", default="auto", show_default=True, help="Simulation engine, without --http.")
@with_json
def serve_command(
    folder: Path,
    by_http: bool,
    device: str | None,
    host: str,
    tcp_port: int,
    engine: str,
    json_file: str | None,
) -> None:
    """Serve the design of a folder that `tg2hdl build` wrote.

    Without --http it simulates the design for one host: it prints the URL for `tg2hdl.connect`, then carries bytes
    between the socket and the serial line until the host disconnects.

    With --http any program of this machine runs the model, simulated or on a board, by the open inference protocol;
    a --host other than 127.0.0.1 lets other machines do so too, without a password.
    """

    def ready(url: str) -> None:
        write_json(json_file, {"url": url})
        click.echo(url, err=json_file == "-")
        sys.stdout.flush()

    if by_http:
        serve_http(folder, device, host, tcp_port, ready)
        return
    if device is not None or host != "127.0.0.1":
        raise click.UsageError("--device and --host are options of --http")
    serve_folder(folder, port=tcp_port, engine=engine, ready=ready)


def serve_http(folder: Path, device: str | None, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve a device by HTTP until the process is interrupted."""
    try:
        with (
            InferenceSession(device or f"simulate:{folder}", folder) as session,
            InferenceServer(ModelServer(session), host, port) as server,
        ):
            ready(server.url)
            server.serve_forever()
    except HostError as error:
        raise InputError(error.message, where=error.stage, hint=error.hint) from None
