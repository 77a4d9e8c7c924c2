"""Files of strangers: whatever is in them, the error is ours."""

from __future__ import annotations

import io
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from tg2hdl_ir import InputError, Tg2hdlError, UnsupportedError
from tg2hdl_tflite import TfliteModel
from tg2hdl_tflite.testing import Network


def dense(**options: object) -> bytes:
    net = Network()
    x = net.tensor((1, 3), "INT8", scale=0.5, zero_point=3, name="x")
    w = net.constant(np.array([[1, -2, 3], [4, 5, 6]], np.int8), scale=0.25, name="w")
    b = net.constant(np.array([100, -7], np.int32), scale=0.125, name="b")
    y = net.tensor((1, 2), "INT8", scale=0.5, name="y")
    net.operator("FULLY_CONNECTED", [x, w, b], [y], "FullyConnectedOptions", version=4)
    return net.finish([x], [y])


def load(folder: Path, data: bytes, **options: int) -> TfliteModel:
    path = folder / "net.tflite"
    path.write_bytes(data)
    return TfliteModel(path, **options)


def refusal(kind: type[Tg2hdlError], folder: Path, data: bytes, **options: int) -> str:
    with pytest.raises(kind) as caught:
        load(folder, data, **options)
    return str(caught.value).replace(str(folder), "FOLDER")


def test_inputs_and_outputs_have_the_names_shapes_and_types_of_the_file(tmp_path: Path) -> None:
    model = load(tmp_path, dense())
    assert model.__name__ == "net"
    assert [(s.name, s.shape, str(s.dtype)) for s in model.inputs] == [("x", (1, 3), "int8")]
    assert model.output_names == ("y",)
    assert model.operators == {"FULLY_CONNECTED"}
    assert model.is_integer


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        TfliteModel(tmp_path / "absent.tflite")
    assert str(caught.value) == (
        f"bad input: no file {str(tmp_path / 'absent.tflite')!r}\n  hint: give the path of a .tflite file"
    )


def test_a_page_of_text(tmp_path: Path) -> None:
    assert refusal(InputError, tmp_path, b"<html>not found</html>") == (
        "bad input: net.tflite is not a TFLite model: bytes 4 to 7 are b'l>no', not b'TFL3'\n"
        "  at: FOLDER/net.tflite\n"
        "  hint: export the model again; a damaged download is often a page of text"
    )


def test_a_limit_that_is_too_small(tmp_path: Path) -> None:
    assert refusal(InputError, tmp_path, dense(), limit=5) == (
        "bad input: w of net.tflite has 6 elements, beyond the limit of 5\n"
        "  hint: if this is intended, raise the limit: limit=6, or --limit 6"
    )
    assert refusal(InputError, tmp_path, dense(), limit=0) == (
        "bad input: limit is 0\n  hint: give a positive number of elements, e.g. limit=2**30"
    )


def test_contents_that_do_not_fit_their_shape(tmp_path: Path) -> None:
    net = Network()
    x = net.tensor((1, 3), "INT8", scale=0.5)
    w = net.tensor((2, 3), "INT8", scale=0.5, data=b"12345", name="w")
    y = net.tensor((1, 2), "INT8", scale=0.5)
    net.operator("FULLY_CONNECTED", [x, w], [y], "FullyConnectedOptions")
    assert refusal(InputError, tmp_path, net.finish([x], [y])) == (
        "bad input: net.tflite is damaged: w of shape (2, 3) has 5 bytes\n"
        "  at: FOLDER/net.tflite\n  hint: copy or export the file again"
    )


def test_an_index_of_a_tensor_that_is_not_there(tmp_path: Path) -> None:
    net = Network()
    x = net.tensor((1, 3), "INT8", scale=0.5)
    net.operator("RELU", [x], [7])
    assert refusal(InputError, tmp_path, net.finish([x], [x])) == (
        "bad input: net.tflite is damaged: tensor 7 is used and there are 1\n"
        "  at: FOLDER/net.tflite\n  hint: copy or export the file again"
    )


@pytest.mark.parametrize("part", range(8))
def test_damaged_files_end_in_an_error_of_ours_or_in_a_model(tmp_path: Path, part: int) -> None:
    data, random = dense(), np.random.default_rng(part)
    for _ in range(60):
        damaged = bytearray(data)
        for _ in range(int(random.integers(1, 4))):
            place = int(random.integers(len(damaged)))
            damaged[place] = int(random.choice([0, 1, 127, 128, 255, random.integers(256)]))
        if random.integers(4) == 0:
            del damaged[int(random.integers(8, len(damaged))) :]
        with suppress(Tg2hdlError):
            load(tmp_path, bytes(damaged))


def test_all_operators_without_hardware_are_named_at_once(tmp_path: Path) -> None:
    net = Network()
    x = net.tensor((1, 4), "FLOAT32", name="x")
    y = net.tensor((1, 4), "FLOAT32", name="dft")
    z = net.tensor((1, 4), "FLOAT32", name="z")
    u = net.tensor((1, 4), "FLOAT32", name="u")
    net.operator("COMPLEX_ABS", [x], [y], version=3)
    net.operator("RELU", [y], [z], version=9)
    net.operator("ADD", [z, z], [u], "AddOptions", FusedActivationFunction=4)
    assert refusal(UnsupportedError, tmp_path, net.finish([x], [u])) == (
        "unsupported: net.tflite has 3 operators without hardware\n"
        "  note: operator 0, COMPLEX_ABS version 3, tensor 'dft': there is no such operator in hardware\n"
        "  note: operator 1, RELU version 9, tensor 'z': version 9 is newer than 3\n"
        "  note: operator 2, ADD version 1, tensor 'u': the fused activation TANH\n"
        "  hint: replace it in the model and export again; export the model with an older converter; "
        "apply the activation in a layer of its own and export again"
    )


def test_a_scale_that_is_missing(tmp_path: Path) -> None:
    net = Network()
    x = net.tensor((1, 3), "INT8", scale=0.5, name="x")
    y = net.tensor((1, 3), "INT8", name="y")
    net.operator("RELU", [x], [y])
    assert refusal(UnsupportedError, tmp_path, net.finish([x], [y])) == (
        "unsupported: net.tflite has 1 operator without hardware\n"
        "  note: operator 0, RELU version 1, tensor 'y': tensor 'y' has 0 scales where one above 0 is needed\n"
        "  hint: quantize the model again"
    )


def test_an_operator_that_reads_what_nothing_computes(tmp_path: Path) -> None:
    net = Network()
    x = net.tensor((1, 3), "FLOAT32", name="x")
    lost = net.tensor((1, 3), "FLOAT32", name="lost")
    y = net.tensor((1, 3), "FLOAT32", name="y")
    net.operator("ADD", [x, lost], [y], "AddOptions")
    assert refusal(UnsupportedError, tmp_path, net.finish([x], [y])) == (
        "unsupported: net.tflite has 1 operator without hardware\n"
        "  note: operator 0, ADD version 1, tensor 'y': tensor 'lost' has no value before it is used\n"
        "  hint: export the model again"
    )


def labelled(text: str, method: int = zipfile.ZIP_STORED) -> bytes:
    """A file with the archive of the metadata at its end."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", method) as file:
        file.writestr("labels.txt", text)
    return dense() + archive.getvalue()


def test_labels_of_the_metadata(tmp_path: Path) -> None:
    assert load(tmp_path, labelled("yes\nno\x1b[31m\n")).labels == {"y": ("yes", "no[31m")}
    assert load(tmp_path, labelled("one\ntwo\nthree\n")).labels == {}
    assert load(tmp_path, dense()).labels == {}
    assert load(tmp_path, labelled("yes\nno\n")[:-9]).labels == {}
    assert load(tmp_path, labelled("yes\nno\n", zipfile.ZIP_DEFLATED)).labels == {"y": ("yes", "no")}
    assert load(tmp_path, labelled("yes\nno\n", zipfile.ZIP_BZIP2)).labels == {}


def test_scales_of_inputs_and_outputs(tmp_path: Path) -> None:
    assert load(tmp_path, dense()).scales == {"x": (0.5, 3), "y": (0.5, 0)}


def test_the_commands_take_the_rounding_and_tell_labels(tmp_path: Path) -> None:
    testing, cli = pytest.importorskip("click.testing"), pytest.importorskip("tg2hdl.cli").cli
    path = tmp_path / "net.tflite"
    path.write_bytes(labelled("yes\nno\n"))
    np.save(tmp_path / "x.npy", np.zeros((1, 3), np.int8))
    given = ["--data", str(tmp_path / "x.npy"), "--rounding", "tflite-reference"]
    run = testing.CliRunner().invoke(cli, ["simulate", str(path), *given])
    assert run.exit_code == 0, run.output
    # Of zeros: (0 - 3) times the weights plus the bias, times 0.25.
    assert run.output.splitlines()[-2:] == ["[[ 24 -13]]", "y: yes 24, no -13"]
    wrong = testing.CliRunner().invoke(cli, ["compile", str(path), "--rounding", "xnnpack"])
    assert "'xnnpack' is not one of 'tflite-micro', 'tflite-reference'" in wrong.output
