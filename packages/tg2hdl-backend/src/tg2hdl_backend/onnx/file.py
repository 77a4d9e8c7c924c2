"""Read an ONNX file with its external data and functions."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import ModelProto
from onnx.inliner import inline_local_functions

from tg2hdl_backend.onnx.limits import DEFAULT_LIMIT, check_functions
from tg2hdl_ir import InputError

__all__ = ["read_file"]


def read_file(file: Path, limit: int = DEFAULT_LIMIT) -> ModelProto:
    """Model of a file, with external data loaded and the file's own functions in place of their calls.

    Parameters
    ----------
    file : Path
    limit : int, optional
        As of `Limit`.

    Raises
    ------
    InputError
        For a file that is missing or no ONNX model, or external data that is missing or too short.
    UnsupportedError
        For functions that are more nodes than the limit.
    """
    if not file.is_file():
        raise InputError(f"no file {str(file)!r}", hint="give the path of an .onnx file")
    try:
        model = onnx.load(str(file), load_external_data=False)
    except MemoryError:
        raise
    except Exception as error:
        raise InputError(
            f"{file.name} is not an ONNX model: {type(error).__name__}: {error}",
            where=str(file),
            hint="check it with onnx.checker.check_model",
        ) from error
    if not model.graph.node and not model.graph.output:
        raise InputError(
            f"{file.name} is not an ONNX model: it has no graph",
            where=str(file),
            hint="check it with onnx.checker.check_model",
        )
    try:
        onnx.load_external_data_for_model(model, str(_folder_of_data(model, file)))
    except MemoryError:
        raise
    except Exception as error:
        raise InputError(
            f"external data of {file.name} cannot be read: {error}",
            where=str(file),
            hint="copy the data itself next to the model: onnx reads no links (cp -L)"
            if "link" in str(error)
            else "put the file that the exporter wrote beside it in the same folder",
        ) from error
    if model.graph.sparse_initializer:
        raise InputError(
            f"{file.name} has sparse initializers",
            where=", ".join(s.values.name for s in model.graph.sparse_initializer),
            hint="store them as dense initializers",
        )
    check_functions(model, limit)
    return inline_local_functions(model) if model.functions else model


def _folder_of_data(model: ModelProto, file: Path) -> Path:
    """The file's own folder, or that of the model which the file is a link to."""
    names = {e.value for t in model.graph.initializer for e in t.external_data if e.key == "location"}
    beside = all((file.parent / name).exists() for name in names)
    return file.parent if beside else file.resolve().parent
