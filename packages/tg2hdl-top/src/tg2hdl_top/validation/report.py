"""A wrong result as an error that names the rewrite, and the smallest reproducer as files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tg2hdl_ir import ProgramIR, Tg2hdlError, ValidationError, format_kernel, format_program, registry
from tg2hdl_ir.files import npz_bytes, write_files
from tg2hdl_ir.passes.instrument import watch_passes
from tg2hdl_ir.pipeline import rewrites
from tg2hdl_ir.plugins.loader import BUILT_IN
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.validation.compare import WrongResult
from tg2hdl_top.validation.rewrites import OutOfTime, RewriteCheck

__all__ = ["located", "reported"]

LOOKED_FOR = 15.0
"""Time in which the rewrite is looked for that made a result wrong (s)."""


def located(
    wrong: WrongResult, program: ProgramIR, options: CompileOptions, compiled: Callable[[], object]
) -> WrongResult:
    """The first rewrite that makes a wrong result when `compiled` compiles again; the same where none is found.

    Parameters
    ----------
    wrong : WrongResult
        The first difference.
    program : ProgramIR
    options : CompileOptions
    compiled : callable
        Compiles again, with the watchers that are set.
    """
    if wrong.blamed is not None:
        return wrong
    # Plans are tried often: they are evaluated where a planned kernel is wrong, or is part of the program.
    is_before = isinstance(wrong.before[0], ProgramIR) and options.float_order == "strict"
    lanes = [entry.name for stage in ("lanes", "loops", "registers") for entry in rewrites(stage)]
    for passed in (lanes, []) if is_before else ([],):
        try:
            with watch_passes(RewriteCheck(program, options, LOOKED_FOR, passed)):
                compiled()
        except WrongResult as found:
            return found
        except (OutOfTime, Tg2hdlError):
            # The first difference is told, whatever a wrong form does to the search.
            pass
    return wrong


def reported(program: ProgramIR, first: WrongResult, cause: WrongResult, keep: str | None) -> ValidationError:
    """The error for a wrong result, with its cause; writes the reproducer into the folder `keep`.

    Parameters
    ----------
    program : ProgramIR
    first : WrongResult
        The first difference.
    cause : WrongResult
        That of `located`.
    keep : str or None
        Folder for the two forms and their inputs.
    """
    notes = [f"inputs {first.inputs}"]
    hint = 'report this; validate="off" (--validate off) compiles it anyway'
    if cause.blamed is None:
        notes.append(f"the rewrite that made it wrong was not found in {LOOKED_FOR:.0f} s of evaluating each")
    else:
        name, kernel = cause.blamed
        owner, plugin = _owner(name)
        notes.append(f"first made wrong by pass {name} of {owner}, in {kernel}")
        if cause is not first:
            notes.append(f"there, {cause.what} (inputs {cause.inputs})")
        if plugin:
            hint = f"upgrade the plugin, or disable it with --no-plugin {plugin}"
    if keep is None:
        notes.append("nothing was written; --validate-keep FOLDER writes both forms and their inputs")
    else:
        notes.append(f"both forms and their inputs are in {_kept(cause, Path(keep))}")
    return ValidationError(
        f"a rewrite changed a result: {first.what}",
        where=f"program {program.name}",
        notes=tuple(notes),
        hint=hint,
    )


def _owner(name: str) -> tuple[str, str]:
    """Distribution of a pass, and the name of its plugin where it is one's."""
    for definition in registry().passes():
        if definition.name == name:
            plugin, distribution = registry().plugin(definition), registry().distribution(definition)
            return (
                (distribution, "")
                if distribution in BUILT_IN
                else (f"plugin {plugin} ({distribution})", plugin)
            )
    return "tg2hdl-top", ""


def _kept(wrong: WrongResult, folder: Path) -> Path:
    """Write the argument and the result of a rewrite, as text, and the inputs on which they differ."""
    contents: dict[str, str | bytes] = {}
    for label, forms in (("before", wrong.before), ("after", wrong.after)):
        for number, form in enumerate(forms):
            text = format_program(form) if isinstance(form, ProgramIR) else format_kernel(form)
            suffix = f"{label}{number}" if len(forms) > 1 else label
            contents[f"{suffix}.ir"] = text + "\n"
    contents["inputs.npz"] = npz_bytes(dict(wrong.contents))
    contents["difference.txt"] = f"{wrong.what}\ninputs {wrong.inputs}\n"
    write_files(folder, contents)
    return folder
