"""Registration of the built-in commands, front ends and report sections; the package itself imports slowly."""

from __future__ import annotations

from tg2hdl_ir import CommandDef, DimensionDef, ExportDef, FrontEndDef, ReportSection, hookimpl

__all__ = [
    "tg2hdl_commands",
    "tg2hdl_dimensions",
    "tg2hdl_exports",
    "tg2hdl_frontends",
    "tg2hdl_report_sections",
]


@hookimpl
def tg2hdl_commands() -> list[CommandDef]:
    """Subcommands of the ``tg2hdl`` command."""
    return [
        CommandDef("cache", "Show or clear the cache of compiled results.", "tg2hdl.cli.cache:cache"),
        CommandDef("demo", "Classify handwritten digits on simulated hardware.", "tg2hdl.cli.demo:demo"),
        CommandDef("compile", "Compile a model to Verilog and RTLIL.", "tg2hdl.cli.compile:compile_command"),
        CommandDef("quantize", "Quantize a float model to integers.", "tg2hdl.cli.quantize:quantize_command"),
        CommandDef(
            "explain",
            "Say why a design takes its cycles, and what would change it.",
            "tg2hdl.cli.explain:explain",
        ),
        CommandDef(
            "explore",
            "Find the fastest design that fits a part, or the smallest that is fast enough.",
            "tg2hdl.cli.explore:explore",
        ),
        CommandDef("report", "Write a report of a model as an HTML file.", "tg2hdl.cli.report:report"),
        CommandDef("simulate", "Run a model on simulated hardware.", "tg2hdl.cli.simulate:simulate"),
        CommandDef(
            "completion", "Print the completion script of a shell.", "tg2hdl.cli.completion:completion"
        ),
        CommandDef("doctor", "Say which tools are there and what is missing.", "tg2hdl.cli.doctor:doctor"),
        CommandDef("build", "Build a model for a board, or for a simulated one.", "tg2hdl.cli.build:build"),
        CommandDef(
            "export", "Write a model as a core for LiteX, Vivado and others.", "tg2hdl.cli.export:export"
        ),
        CommandDef(
            "loopback", "Tell a dead cable from a dead design on a board.", "tg2hdl.cli.loopback:loopback"
        ),
        CommandDef("program", "Load a built bitstream into a board.", "tg2hdl.cli.program:program"),
        CommandDef("serve", "Simulate a built design behind a socket.", "tg2hdl.cli.serve:serve_command"),
        CommandDef(
            "selftest",
            "Run the stored vectors of a built design on a board.",
            "tg2hdl.cli.selftest:selftest_command",
        ),
        CommandDef("split", "Cut a model into parts for several boards.", "tg2hdl.cli.split:split_command"),
        CommandDef("stories", "Let a language model on hardware write a text.", "tg2hdl.cli.stories:stories"),
        CommandDef("ir-opt", "Run rewrites on printed IR.", "tg2hdl.cli.ir_opt:ir_opt"),
        CommandDef("plugins", "Show the loaded plugins.", "tg2hdl.cli.plugins:plugins"),
    ]


@hookimpl
def tg2hdl_frontends() -> list[FrontEndDef]:
    """Files with models."""
    return [
        FrontEndDef("python", "Python files", (".py",), "tg2hdl.python_file:load_file", has_names=True),
        FrontEndDef(
            "onnx",
            "ONNX files",
            (".onnx",),
            "tg2hdl.onnx_file:load_file",
            "tg2hdl.onnx_file:is_onnx_file",
            options=("batch", "dims", "fixed", "limit", "state"),
            command_options="tg2hdl.onnx_file:command_options",
            quantize="tg2hdl.onnx_file:quantize_file",
            needs=("onnx",),
            install='pip install "tg2hdl[onnx]"',
        ),
        FrontEndDef(
            "quantized",
            "models of tg2hdl quantize",
            (".npz",),
            "tg2hdl.quantized_file:load_file",
            "tg2hdl.quantized_file:is_quantized_file",
            write="tg2hdl.quantized_file:save_quantized",
        ),
    ]


@hookimpl
def tg2hdl_report_sections() -> list[ReportSection]:
    """Sections of ``tg2hdl report``."""
    sections = "tg2hdl.report.sections."
    return [
        ReportSection("model", "Model", sections + "model:render", order=5),
        ReportSection("summary", "Summary", sections + "summary:render", order=10),
        ReportSection("comparison", "Comparison", sections + "comparison:render", order=15),
        ReportSection("layers", "Layers", sections + "layers:render", order=20),
        ReportSection("utilization", "Utilization", sections + "utilization:render", order=30),
        ReportSection("multipliers", "Multipliers", sections + "multipliers:render", order=35),
        ReportSection("memory", "Memory", sections + "memory:render", order=40),
        ReportSection("roofline", "Roofline", sections + "roofline:render", order=50),
        ReportSection("area", "Area", sections + "area:render", order=60),
        ReportSection("decisions", "Decisions", sections + "decisions:render", order=75),
        ReportSection("numbers", "Numbers", sections + "numbers:render", order=80),
    ]


@hookimpl
def tg2hdl_dimensions() -> list[DimensionDef]:
    """Dimensions of ``tg2hdl explore``."""
    values, apply = "tg2hdl.exploration.dimensions:", "tg2hdl.exploration.dimensions:with_weights"
    return [
        DimensionDef("multipliers", "hardware multipliers", values + "multipliers"),
        DimensionDef("schedule", "when kernels start", values + "schedules"),
        DimensionDef("share_units", "float units shared by kernels", values + "shared_units"),
        DimensionDef("target", "family that is planned for", values + "targets"),
        DimensionDef("weights", "where weights are", values + "weights", apply),
        DimensionDef("float_order", "order of float sums", values + "float_orders", changes_numbers=True),
        DimensionDef("fold_batchnorm", "scales in the weights", values + "folds", changes_numbers=True),
    ]


@hookimpl
def tg2hdl_exports() -> list[ExportDef]:
    """Systems of ``tg2hdl export``."""
    buses = ("axi-lite", "axi-slverr", "wishbone", "wishbone-err")
    rest = ("axi-stream", "native", "uart", "spi")

    def system(name: str, description: str, *ports: str) -> ExportDef:
        return ExportDef(name, description, f"tg2hdl.export.{name.replace('-', '_')}:files", ports)

    return [
        system("amaranth-soc", "component with a wishbone.Interface and its memory map", *buses[2:]),
        system("fusesoc", "core file for FuseSoC and Edalize", *buses, *rest),
        system("litex", "LiteX module with CSRs and an interrupt", *buses[2:], *buses[:2]),
        system("quartus", "component of Platform Designer and a project", *buses, *rest),
        system("vivado", "IP repository and a script that synthesizes the core", *buses, *rest),
    ]
