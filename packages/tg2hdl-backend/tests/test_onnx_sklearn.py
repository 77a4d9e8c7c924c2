"""Models of scikit-learn as skl2onnx writes them, against ONNX Runtime and scikit-learn itself."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the onnx package reads the files")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is the reference")
pytest.importorskip("sklearn", reason="scikit-learn fits the models")
skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx writes the files")
from sklearn import (  # noqa: E402
    calibration,
    ensemble,
    linear_model,
    naive_bayes,
    neural_network,
    pipeline,
    preprocessing,
    svm,
    tree,
)

from tg2hdl_backend import OnnxModel  # noqa: E402
from tg2hdl_backend.testing.hardware import compare_with_hardware  # noqa: E402
from tg2hdl_backend.testing.onnx_files import golden, runtime  # noqa: E402

RNG = np.random.default_rng(5)
X = RNG.normal(size=(120, 4)).astype(np.float32)
THREE = (X[:, 0] + X[:, 1] > 0).astype(int) + (X[:, 2] > 0.5)
TWO = (X[:, 0] * X[:, 1] > 0).astype(int)
REAL = (X[:, 0] - 2 * X[:, 3] + X[:, 1] ** 2).astype(np.float32)
ROWS = X[:7]

CLASSIFIERS = {
    "logistic": (linear_model.LogisticRegression(), THREE),
    "logistic_two_classes": (linear_model.LogisticRegression(), TWO),
    "labels_that_are_no_numbers_of_classes": (linear_model.LogisticRegression(), THREE * 10 + 5),
    "scaled_logistic": (
        pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression()),
        THREE,
    ),
    "mlp": (neural_network.MLPClassifier((6,), max_iter=50, random_state=0), THREE),
    "mlp_two_classes": (
        neural_network.MLPClassifier((6,), activation="tanh", max_iter=50, random_state=0),
        TWO,
    ),
    "tree": (tree.DecisionTreeClassifier(max_depth=4, random_state=0), THREE),
    "tree_two_classes": (tree.DecisionTreeClassifier(max_depth=3, random_state=0), TWO),
    "forest": (ensemble.RandomForestClassifier(5, max_depth=3, random_state=0), THREE),
    "forest_of_two_labels": (
        ensemble.RandomForestClassifier(3, max_depth=3, random_state=0),
        TWO * 7 - 3,
    ),
    "boosting_two_classes": (ensemble.GradientBoostingClassifier(n_estimators=4, random_state=0), TWO),
    "boosting": (ensemble.GradientBoostingClassifier(n_estimators=3, random_state=0), THREE),
    "linear_svm": (svm.LinearSVC(random_state=0), THREE),
}
REGRESSORS = {
    "linear": linear_model.LinearRegression(),
    "scaled": pipeline.make_pipeline(preprocessing.MinMaxScaler(), linear_model.Ridge()),
    "normalized": pipeline.make_pipeline(preprocessing.Normalizer(), linear_model.Ridge()),
    "mlp": neural_network.MLPRegressor(hidden_layer_sizes=(5,), max_iter=50, random_state=0),
    "tree": tree.DecisionTreeRegressor(max_depth=4, random_state=0),
    "forest": ensemble.RandomForestRegressor(4, max_depth=3, random_state=0),
    "boosting": ensemble.GradientBoostingRegressor(n_estimators=4, random_state=0),
}


def convert(path, model, target, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X) if target is None else model.fit(X, target)
        proto = skl2onnx.to_onnx(model, X[:1], **options)
    path.write_bytes(proto.SerializeToString())
    return path


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers(tmp_path, name):
    model, target = CLASSIFIERS[name]
    options = {} if name == "linear_svm" else {"options": {"zipmap": False}}
    path = convert(tmp_path / "m.onnx", model, target, **options)
    label, scores = golden(OnnxModel(path, batch=len(ROWS)), ROWS)
    expected = runtime(path, X=ROWS)
    np.testing.assert_array_equal(label, expected[0])
    np.testing.assert_array_equal(label, model.predict(ROWS))
    np.testing.assert_allclose(scores, expected[1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(tmp_path, name):
    model = REGRESSORS[name]
    path = convert(tmp_path / "m.onnx", model, REAL)
    result = golden(OnnxModel(path, batch=len(ROWS)), ROWS)[0]
    np.testing.assert_allclose(result, runtime(path, X=ROWS)[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(result.reshape(-1), model.predict(ROWS), rtol=1e-4, atol=1e-4)


def test_probabilities_in_dictionaries_are_a_matrix(tmp_path):
    model, target = CLASSIFIERS["logistic"]
    path = convert(tmp_path / "m.onnx", model, target)
    scores = golden(OnnxModel(path, batch=len(ROWS)), ROWS)[1]
    np.testing.assert_allclose(scores, model.predict_proba(ROWS), rtol=1e-4, atol=1e-6)


TEXT = np.array(["no", "yes", "maybe"])[THREE]


@pytest.mark.parametrize(
    "model",
    [
        linear_model.LogisticRegression(),
        tree.DecisionTreeClassifier(max_depth=3, random_state=0),
        neural_network.MLPClassifier((4,), max_iter=20, random_state=0),
    ],
    ids=["logistic", "tree", "mlp"],
)
def test_labels_that_are_strings(tmp_path, model):
    path = convert(tmp_path / "m.onnx", model, TEXT, options={"zipmap": False})
    onnx_model = OnnxModel(path, batch=len(ROWS))
    label, scores = golden(onnx_model, ROWS)
    assert onnx_model.text_outputs == {onnx_model.output_names[0]}
    np.testing.assert_array_equal(label, model.predict(ROWS))
    np.testing.assert_allclose(scores, runtime(path, X=ROWS)[1], rtol=1e-4, atol=1e-6)


def test_support_vectors(tmp_path):
    for name, model, target in (
        ("three", svm.SVC(), THREE),
        ("two", svm.SVC(kernel="poly"), TWO),
        ("regression", svm.SVR(kernel="sigmoid"), REAL),
        ("outliers", svm.OneClassSVM(), None),
        ("probabilities", calibration.CalibratedClassifierCV(svm.SVC(), ensemble=False, cv=3), THREE),
    ):
        classes = isinstance(model, svm.SVC | calibration.CalibratedClassifierCV)
        options = {"options": {"zipmap": False}} if classes else {}
        path = convert(tmp_path / f"{name}.onnx", model, target, **options)
        for found, wanted in zip(
            golden(OnnxModel(path, batch=len(ROWS)), ROWS), runtime(path, X=ROWS), strict=True
        ):
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5, err_msg=name)


def test_missing_values_in_trees(tmp_path):
    """NaN takes the branch that training chose; thresholds may be infinite."""
    gaps = X.copy()
    gaps[RNG.random(X.shape) < 0.3] = np.nan
    model = tree.DecisionTreeClassifier(max_depth=5, random_state=0).fit(gaps, THREE)
    path = tmp_path / "m.onnx"
    path.write_bytes(skl2onnx.to_onnx(model, gaps[:1], options={"zipmap": False}).SerializeToString())
    assert np.isnan(gaps[:40]).any()
    label = golden(OnnxModel(path, batch=40), gaps[:40])[0]
    np.testing.assert_array_equal(label, runtime(path, X=gaps[:40])[0])


def test_decision_path(tmp_path):
    """Each leaf's weight is repeated in the file and counts once."""
    model = tree.DecisionTreeClassifier(max_depth=3, random_state=0)
    path = convert(tmp_path / "m.onnx", model, THREE, options={"zipmap": False, "decision_leaf": True})
    leaf = golden(OnnxModel(path, batch=len(ROWS)), ROWS)[2]
    np.testing.assert_array_equal(leaf.reshape(-1), model.apply(ROWS))


def test_bayes(tmp_path):
    model = naive_bayes.GaussianNB()
    path = convert(tmp_path / "m.onnx", model, THREE, options={"zipmap": False})
    label, scores = golden(OnnxModel(path, batch=len(ROWS)), ROWS)
    np.testing.assert_array_equal(label, model.predict(ROWS))
    np.testing.assert_allclose(scores, model.predict_proba(ROWS), rtol=1e-3, atol=1e-5)


def test_tree_in_hardware(tmp_path):
    model = tree.DecisionTreeRegressor(max_depth=3, random_state=0)
    path = convert(tmp_path / "m.onnx", model, REAL)
    assert compare_with_hardware(OnnxModel(path, batch=2), ROWS[:2]).mismatches == ()
