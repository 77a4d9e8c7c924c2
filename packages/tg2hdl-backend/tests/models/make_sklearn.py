"""Write the model files that skl2onnx makes, and what scikit-learn computes for some samples.

Run by hand, in an environment of its own: ``pip install skl2onnx scikit-learn && python make_sklearn.py``.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import skl2onnx
import sklearn
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

HERE = Path(__file__).parent
CLASSIFIERS = {
    "logistic": make_pipeline(StandardScaler(), LogisticRegression()),
    "mlp_classifier": make_pipeline(
        MinMaxScaler(), MLPClassifier(hidden_layer_sizes=(6,), random_state=0, max_iter=300, tol=1e-3)
    ),
    "tree_classifier": DecisionTreeClassifier(max_depth=3, random_state=0),
    "forest_classifier": RandomForestClassifier(5, max_depth=3, random_state=0),
}
REGRESSORS = {
    "linear": LinearRegression(),
    "mlp_regressor": make_pipeline(
        StandardScaler(), MLPRegressor(hidden_layer_sizes=(5,), random_state=0, max_iter=200)
    ),
    "tree_regressor": DecisionTreeRegressor(max_depth=3, random_state=0),
    "boosting_regressor": GradientBoostingRegressor(n_estimators=4, max_depth=2, random_state=0),
}


def main() -> None:
    """Write everything."""
    versions = {"scikit-learn": sklearn.__version__, "skl2onnx": skl2onnx.__version__, "files": {}}
    for load, models in ((load_iris, CLASSIFIERS), (load_diabetes, REGRESSORS)):
        features, target = load(return_X_y=True)
        samples = features[:: len(features) // 8][:8].astype(np.float32)
        for name, model in models.items():
            model.fit(features.astype(np.float32), target)
            options = {id(model): {"zipmap": False}} if models is CLASSIFIERS else None
            proto = skl2onnx.to_onnx(model, samples[:1], options=options, target_opset=15)
            onnx.save(proto, HERE / f"sklearn_{name}.onnx")
            results = {"x": samples, "predicted": model.predict(samples)}
            if models is CLASSIFIERS:
                results["probabilities"] = model.predict_proba(samples)
            np.savez(HERE / f"sklearn_{name}.npz", **results)
            versions["files"][name] = sorted(
                {f"{n.domain or 'ai.onnx'} {n.op_type}" for n in proto.graph.node}
            )
    (HERE / "versions_sklearn.json").write_text(json.dumps(versions, indent=2) + "\n")


if __name__ == "__main__":
    main()
