import numpy as np
import pytest

from tg2hdl.model_file import load_model_file, parse_input
from tg2hdl_ir import InputError

GOOD = """
import numpy as np
def model(x): return x + 1
class Net:
    def __call__(self, x): return x
net = Net()
number = 3
example_inputs = [np.zeros(2, np.int8)]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text("x = 1\ny = x / 0\n")
    (tmp_path / "syntax.py").write_text("def model(x:\n")
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "inputs.py").write_text("def model(x): return x\nexample_inputs = 3\n")
    (tmp_path / "near.py").write_text("FACTOR = 5\n")
    (tmp_path / "imports.py").write_text("from near import FACTOR\ndef model(x): return x * FACTOR\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_model_and_examples_are_found(folder):
    file = load_model_file("good.py")
    assert (file.name, file.label, file.model(1)) == ("model", "good", 2)
    assert file.example_inputs[0].dtype == np.int8
    named = load_model_file("good.py:net")
    assert (named.label, named.model(4)) == ("good_net", 4)


def test_a_model_imports_what_is_beside_it(folder):
    assert load_model_file("imports.py").model(2) == 10


REFUSED = [
    (
        "none.py",
        "bad input: no file 'none.py'\n  hint: name a model, e.g. net.onnx or model.py:model",
    ),
    ("goood.py:net", "bad input: no file 'goood.py'\n  hint: did you mean good.py?"),
    (
        "good.py:nett",
        "bad input: good.py defines no 'nett'\n  at: good.py\n  hint: name one of: model, net, as in good.py:NAME",
    ),
    (
        "empty.py",
        "bad input: empty.py defines no 'model'\n  at: empty.py\n  hint: define a function `model(x)` in it",
    ),
    (
        "good.py:number",
        "bad input: 'number' in good.py is of type int, which cannot be called\n  at: good.py\n"
        "  hint: name a function of Tensors, or an object with __call__",
    ),
    (
        "bad.py",
        "bad input: bad.py failed: ZeroDivisionError: division by zero\n  at: bad.py, line 2\n"
        "  hint: run it with Python first: python bad.py",
    ),
    (
        "inputs.py",
        "bad input: example_inputs in inputs.py is of type int\n  at: inputs.py\n"
        "  hint: make it a tuple with one array per parameter of the model",
    ),
    ("", "bad input: no model file given\n  hint: give FILE or FILE:NAME, e.g. model.py:model"),
]


@pytest.mark.parametrize(("spec", "text"), REFUSED)
def test_refusals(folder, spec, text):
    with pytest.raises(InputError) as caught:
        load_model_file(spec)
    assert str(caught.value) == text


def test_a_syntax_error_names_its_line(folder):
    with pytest.raises(InputError, match=r"syntax\.py failed: SyntaxError") as caught:
        load_model_file("syntax.py")
    assert caught.value.where == "syntax.py, line 1"


@pytest.mark.parametrize(
    ("text", "shape", "dtype"),
    [("int8:1x784", (1, 784), "int8"), ("float32:3", (3,), "float32"), ("bool:scalar", (), "bool")],
)
def test_inputs_from_text(text, shape, dtype):
    array = parse_input(text)
    assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
    assert not array.any()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "int8:2x",
            "bad input: input 'int8:2x' is not of the form DTYPE:SHAPE\n  hint: e.g. int8:1x784 or fp32:1x3x32x32",
        ),
        (
            "int9:2",
            "bad input: input 'int9:2': unknown dtype 'int9'\n  hint: known: bool, int8, int16, int32, int64, uint8, "
            "uint16, uint32, uint64, fp16, bf16, fp32, fp64, fp8_e4m3, fp8_e5m2",
        ),
    ],
)
def test_refused_inputs(text, message):
    with pytest.raises(InputError) as caught:
        parse_input(text)
    assert str(caught.value) == message
