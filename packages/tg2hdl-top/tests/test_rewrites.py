"""Each rewrite of programs and each step of the search alone: printed IR in, printed IR out, and equal results."""

from __future__ import annotations

from pathlib import Path

import pytest

import tg2hdl_top.search.alone  # noqa: F401  enters the rewrites
from tg2hdl_ir import InputError, registry
from tg2hdl_ir.opt import rewrite_text
from tg2hdl_ir.testing.rewrites import check_rewrite_of_programs

FOLDER = Path(__file__).parent / "ir"
NAMES = sorted(d.name for d in registry().passes() if registry().distribution(d) == "tg2hdl-top")
OPTIONS = {"choose-partial-sums": {"multipliers": [1]}}
ROUNDED = {"choose-bias", "choose-partial-sums", "take-regrouped"}


@pytest.mark.parametrize("name", NAMES)
def test_the_result_is_the_expected_text_and_computes_the_same(name):
    check_rewrite_of_programs(FOLDER, name, OPTIONS.get(name, {}), tolerance=1e-5 if name in ROUNDED else 0)


def test_every_rewrite_has_its_text():
    assert {path.stem for path in FOLDER.glob("*.ir")} == set(NAMES)


def test_a_parameter_changes_the_result():
    text = (FOLDER / "slice-axis.ir").read_text()
    assert rewrite_text(text, ["slice-axis"], {"runs": [2]}).count("  call ") == 2
    assert rewrite_text(text, ["slice-axis"], {"runs": [6]}).count("  call ") == 6
    ragged = text.replace("i0 < 6", "i0 < 5").replace("int8[24]", "int8[20]").replace("int32[6]", "int32[5]")
    cut = rewrite_text(ragged, ["slice-axis"], {"runs": [2]})
    assert cut.count("tile0=") == cut.count("  call ") == 2
    chain = (FOLDER / "choose-product-cuts.ir").read_text()
    assert rewrite_text(chain, ["choose-product-cuts"], {"multipliers": [2]}).count("  call ") == 1
    assert rewrite_text(chain, ["choose-product-cuts"], {"multipliers": [4]}).count("  call ") == 2


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"call": [3]}, "bad input: there is no call 3\n  hint: give one from 0 to 0"),
        ({"runs": [5]}, "bad input: call 0 cannot be cut into such tiles\n  hint: give runs=2, 3, 6"),
    ],
)
def test_refusals(options, text):
    with pytest.raises(InputError) as caught:
        rewrite_text((FOLDER / "slice-axis.ir").read_text(), ["slice-axis"], options)
    assert str(caught.value) == text


def test_a_call_without_weights_cannot_be_cut():
    with pytest.raises(InputError) as caught:
        rewrite_text((FOLDER / "separate-kernels.ir").read_text(), ["slice-axis"])
    assert str(caught.value) == (
        "bad input: call 0 cannot be cut into such tiles\n"
        "  hint: give another call: no loop cuts all of its weights into tiles"
    )
