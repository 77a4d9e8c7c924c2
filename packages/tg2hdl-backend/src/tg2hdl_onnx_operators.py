"""Plugin: the ONNX operators of tg2hdl.  A module of its own, because it must load without tinygrad."""

from __future__ import annotations

from tg2hdl_ir import OnnxOperatorDef, hookimpl

__all__ = ["tg2hdl_onnx_operators"]

# Domain, module: operator, first version, function, inputs that must be known.
_TABLE: dict[tuple[str, str], tuple[tuple[str, int, str, tuple[int, ...]], ...]] = {
    ("", "quantization"): (
        ("QuantizeLinear", 10, "quantize_linear", ()),
        ("DequantizeLinear", 10, "dequantize_linear", ()),
        ("DynamicQuantizeLinear", 11, "dynamic_quantize_linear", ()),
        ("MatMulInteger", 10, "matmul_integer", ()),
        ("ConvInteger", 10, "conv_integer", ()),
        ("QLinearMatMul", 10, "qlinear_matmul", ()),
        ("QLinearConv", 10, "qlinear_conv", ()),
    ),
    ("", "convolution"): (
        ("Conv", 1, "conv", ()),
        ("MatMul", 1, "matmul", ()),
        ("Gemm", 7, "gemm", ()),
        ("LpPool", 2, "lp_pool", ()),
        ("GlobalLpPool", 2, "global_lp_pool", ()),
    ),
    ("", "sampling"): (
        ("DeformConv", 19, "deform_conv", ()),
        ("GridSample", 16, "grid_sample", ()),
        ("RoiAlign", 10, "roi_align", ()),
    ),
    ("", "matrices"): (
        ("Det", 11, "det", ()),
        ("DFT", 17, "dft_17", (1,)),
        ("DFT", 20, "dft", (1, 2)),
        ("STFT", 17, "stft", (1, 3)),
    ),
    ("", "recurrent"): (("RNN", 7, "rnn", ()), ("GRU", 7, "gru", ()), ("LSTM", 7, "lstm", ())),
    ("", "indexing"): (
        ("Pad", 1, "pad", (1, 3)),
        ("ScatterND", 11, "scatter_nd", ()),
        ("TensorScatter", 24, "tensor_scatter", ()),
        ("ReverseSequence", 10, "reverse_sequence", ()),
        ("SpaceToDepth", 1, "space_to_depth", ()),
        ("Col2Im", 18, "col2im", (1, 2)),
    ),
    ("", "elementwise"): (
        ("Relu", 1, "relu", ()),
        ("Abs", 1, "absolute", ()),
        ("PRelu", 7, "p_relu", ()),
        ("Round", 11, "rounded", ()),
        ("Sign", 9, "sign", ()),
        ("Clip", 6, "clip", ()),
        ("Max", 1, "largest", ()),
        ("Min", 1, "smallest", ()),
        ("HardSwish", 14, "hard_swish", ()),
        ("Shrink", 9, "shrink", ()),
        ("BitShift", 11, "bit_shift", ()),
        ("BitCast", 26, "bit_cast", ()),
        ("Cast", 6, "cast", ()),
        ("CastLike", 15, "cast_like", ()),
        ("Mod", 10, "mod", ()),
        ("LpNormalization", 1, "lp_normalization", ()),
        ("CumProd", 26, "cum_prod", (1,)),
        ("Softmax", 1, "softmax_flat", ()),
        ("Softmax", 13, "softmax", ()),
        ("LogSoftmax", 1, "log_softmax_flat", ()),
        ("LogSoftmax", 13, "log_softmax", ()),
        ("Hardmax", 1, "hardmax_flat", ()),
        ("Hardmax", 13, "hardmax", ()),
        ("Dropout", 1, "dropout", (2,)),
    ),
    ("", "transcendental"): (
        ("Acos", 7, "acos", ()),
        ("Acosh", 9, "acosh", ()),
        ("Asin", 7, "asin", ()),
        ("Asinh", 9, "asinh", ()),
        ("Atan", 7, "atan", ()),
        ("Atanh", 9, "atanh", ()),
        ("Celu", 12, "celu", ()),
        ("Cos", 7, "cos", ()),
        ("Cosh", 9, "cosh", ()),
        ("Elu", 1, "elu", ()),
        ("Erf", 9, "erf", ()),
        ("Exp", 1, "exp", ()),
        ("Gelu", 20, "gelu", ()),
        ("Mish", 18, "mish", ()),
        ("Selu", 1, "selu", ()),
        ("Sinh", 9, "sinh", ()),
        ("Softplus", 1, "softplus", ()),
        ("Tan", 7, "tan", ()),
        ("Tanh", 1, "tanh", ()),
    ),
    ("", "resize"): (
        ("Upsample", 1, "resize_10", (1,)),
        ("Resize", 10, "resize_10", (1,)),
        ("Resize", 11, "resize", (1, 2, 3)),
        ("MaxUnpool", 9, "max_unpool", (2,)),
    ),
    ("", "importer"): (
        ("ArgMax", 1, "arg_max", ()),
        ("ArgMin", 1, "arg_min", ()),
        ("AveragePool", 1, "average_pool", ()),
        ("ConvTranspose", 1, "conv_transpose", ()),
        ("GatherElements", 11, "gather_elements", ()),
        ("GlobalMaxPool", 1, "global_max_pool", ()),
        ("GreaterOrEqual", 12, "greater_or_equal", ()),
        ("GroupNormalization", 18, "group_normalization", ()),
        ("LessOrEqual", 12, "less_or_equal", ()),
        ("MaxPool", 1, "max_pool", ()),
        ("MeanVarianceNormalization", 9, "mean_variance_normalization", ()),
        ("Pow", 7, "power", ()),
        ("ReduceLogSumExp", 1, "reduce_log_sum_exp", (1,)),
        ("ReduceMax", 1, "reduce_max", (1,)),
        ("ReduceMean", 1, "reduce_mean", (1,)),
        ("ReduceMin", 1, "reduce_min", (1,)),
        ("Slice", 1, "slice_", (1, 2, 3, 4)),
        ("Split", 1, "split", (1,)),
        ("TopK", 1, "top_k_1", ()),
        ("TopK", 10, "top_k", (1,)),
    ),
    ("", "functions"): (("Attention", 23, "expand", ()), ("CenterCropPad", 18, "expand", ())),
    ("ai.onnx.ml", "linear_models"): (
        ("ArrayFeatureExtractor", 1, "array_feature_extractor", ()),
        ("Binarizer", 1, "binarizer", ()),
        ("FeatureVectorizer", 1, "feature_vectorizer", ()),
        ("Imputer", 1, "imputer", ()),
        ("LabelEncoder", 2, "label_encoder", ()),
        ("LinearClassifier", 1, "linear_classifier", ()),
        ("LinearRegressor", 1, "linear_regressor", ()),
        ("Normalizer", 1, "normalizer", ()),
        ("OneHotEncoder", 1, "one_hot_encoder", ()),
        ("Scaler", 1, "scaler", ()),
        ("ZipMap", 1, "zip_map", ()),
    ),
    ("ai.onnx.ml", "support_vectors"): (
        ("SVMClassifier", 1, "svm_classifier", ()),
        ("SVMRegressor", 1, "svm_regressor", ()),
    ),
    ("ai.onnx.ml", "trees"): (
        ("TreeEnsemble", 5, "tree_ensemble", ()),
        ("TreeEnsembleClassifier", 1, "tree_classifier", ()),
        ("TreeEnsembleRegressor", 1, "tree_regressor", ()),
    ),
    **{
        (domain, "qonnx"): (
            ("Quant", 1, "quant", (3,)),
            ("IntQuant", 1, "quant", (3,)),
            ("BipolarQuant", 1, "bipolar_quant", ()),
            ("Trunc", 1, "trunc", (3, 4)),
            ("Trunc", 2, "trunc_2", (1, 3, 4, 5)),
        )
        for domain in ("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general")
    },
    ("com.microsoft", "sampling"): (("GridSample", 1, "grid_sample", ()),),
    ("com.microsoft", "transcendental"): (
        ("BiasGelu", 1, "bias_gelu", ()),
        ("FastGelu", 1, "fast_gelu", ()),
        ("Gelu", 1, "gelu", ()),
    ),
    ("com.microsoft", "contrib"): (
        ("DynamicQuantizeMatMul", 1, "dynamic_quantize_matmul", ()),
        ("FusedConv", 1, "fused_conv", ()),
        ("FusedGemm", 1, "fused_gemm", ()),
        ("FusedMatMul", 1, "fused_matmul", ()),
        ("MatMulNBits", 1, "matmul_n_bits", ()),
        ("QuickGelu", 1, "quick_gelu", ()),
        ("MatMulIntegerToFloat", 1, "matmul_integer_to_float", ()),
        ("QGemm", 1, "qgemm", ()),
        ("QLinearAdd", 1, "qlinear_add", ()),
        ("QLinearConcat", 1, "qlinear_concat", ()),
        ("QLinearGlobalAveragePool", 1, "qlinear_global_average_pool", ()),
        ("QLinearLeakyRelu", 1, "qlinear_leaky_relu", ()),
        ("QLinearMul", 1, "qlinear_mul", ()),
        ("QLinearSigmoid", 1, "qlinear_sigmoid", ()),
        ("QLinearWhere", 1, "qlinear_where", ()),
    ),
    ("com.microsoft", "code_reductions"): (
        ("QLinearAveragePool", 1, "qlinear_average_pool", ()),
        ("QLinearSoftmax", 1, "qlinear_softmax", ()),
    ),
    ("com.microsoft", "quantization"): (
        ("QuantizeLinear", 1, "quantize_linear", ()),
        ("DequantizeLinear", 1, "dequantize_linear", ()),
    ),
}


@hookimpl
def tg2hdl_onnx_operators() -> list[OnnxOperatorDef]:
    """Operators that tinygrad's importer lacks, or computes differently than ONNX says."""
    return [
        OnnxOperatorDef(op, f"tg2hdl_backend.onnx.operators.{module}:{function}", domain, version, constants)
        for (domain, module), rows in _TABLE.items()
        for op, version, function, constants in rows
    ]
