"""Registration of the built-in commands; outside of the package, whose import brings in tinygrad."""

from __future__ import annotations

from tg2hdl_ir.plugins.descriptors import CommandDef
from tg2hdl_ir.plugins.hookspecs import hookimpl

__all__ = ["tg2hdl_commands"]


@hookimpl
def tg2hdl_commands() -> list[CommandDef]:
    """Subcommands of the ``tg2hdl`` command."""
    return [
        CommandDef("cache", "Show or clear the cache of compiled results.", "tg2hdl.cli.cache:cache"),
        CommandDef("demo", "Classify handwritten digits on simulated hardware.", "tg2hdl.cli.demo:demo"),
        CommandDef("compile", "Compile a model to Verilog and RTLIL.", "tg2hdl.cli.compile:compile_command"),
        CommandDef("quantize", "Quantize a float model to integers.", "tg2hdl.cli.quantize:quantize_command"),
        CommandDef("simulate", "Run a model on simulated hardware.", "tg2hdl.cli.simulate:simulate"),
        CommandDef("plugins", "Show the loaded plugins.", "tg2hdl.cli.plugins:plugins"),
    ]
