"""A part of the backend node tests that the onnx package ships; all of them: benchmarks/onnx/backend_tests.py."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx", reason="the tests are in the onnx package")
from tg2hdl_backend.testing.onnx_cases import load_cases, run_case

NAMES = """
add_uint8 and_bcast3v1d argmax_default_axis_example averagepool_2d_same_upper basic_conv_with_padding
batchnorm_example bitshift_right_int8_shift_ge_width bitwise_xor_ui8_bcast_4v3d cast_FLOAT_to_FLOAT8E4M3FN
castlike_FLOAT_to_FLOAT16 clip_default_int8_inbounds col2im constant_pad convinteger_with_padding
convtranspose_pads cumprod_1d_exclusive cumsum_2d_axis_1 depthtospace_example dequantizelinear_blocked
dequantizelinear_e4m3fn dynamicquantizelinear dynamicquantizelinear_max_adjusted gather_elements_0
gemm_all_attributes gru_seq_length if l2normalization_axis_0 layer_normalization_2d_axis0 loop11
lppool_2d_pads lstm_with_peepholes matmulinteger maxpool_2d_dilations maxunpool_export_with_output_shape
mod_float_edge_cases_fmod_0_float32 onehot_with_axis qlinearconv qlinearmatmul_2D_uint8_float32
quantizelinear_axis quantizelinear_blocked_asymmetric quantizelinear_e5m2 reduce_max_do_not_keepdims_example
reduce_sum_negative_axes_keepdims_random resize_downsample_scales_cubic_align_corners
resize_tf_crop_and_resize_extrapolation_value reversesequence_time rnn_seq_length scan9_sum scatternd_add
slice_neg_steps softmax_axis_1 spacetodepth_crd_mode_example top_k attention_3d_gqa
attention_4d_causal_with_past_and_present
"""
RIGHT = NAMES.split()
REFUSED = {
    "nonzero_example": "NonZero",
    "string_concat": "STRING",
    "training_dropout": "training mode needs random numbers",
    "compress_0": "'condition' decides shapes or what is computed, but depends on the input 'condition'",
}


def result(name: str):
    return run_case(next(c for c in load_cases() if c.name == f"test_{name}"), limit=300)


@pytest.mark.parametrize("name", RIGHT)
def test_right(name):
    found = result(name)
    assert (found.status, found.reason) == ("right", "")


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    found = result(name)
    assert found.status == "refused"
    assert REFUSED[name] in found.reason


def test_only_what_means_axes_is_fixed():
    found = result("reduce_max_do_not_keepdims_example")
    assert found.fixed == ["axes"]
    assert result("add").fixed == []
