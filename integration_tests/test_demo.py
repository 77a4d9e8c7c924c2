"""The main job, as the README's first command runs it: both models, every test image."""

import json
import os
import subprocess
import sys

from environments import ROOT


def test_the_demo_runs_every_test_image_on_both_models(tmp_path):
    command = [sys.executable, "-W", "error", "-m", "tg2hdl", "demo", "-o", str(tmp_path)]
    environment = {**os.environ, "COLUMNS": "120"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    assert (result.returncode, result.stderr) == (0, "")
    assert "same bits   golden model 360 of 360 images, tinygrad 5 of 5" in result.stdout
    for name, macs, accuracy in (("int8_mlp", 2368, 350 / 360), ("float_mlp", 2368, 351 / 360)):
        data = json.loads((tmp_path / f"{name}.json").read_text())
        assert data["images"] == data["golden_images"] == 360
        assert data["hardware_accuracy"] == accuracy
        assert data["reference_accuracy"] == 351 / 360
        assert data["predicted_cycles"] == data["cycles_per_image"]
        assert data["simulated_kernel_cycles"] == data["predicted_kernel_cycles"]
        assert sum(data["simulated_kernel_cycles"]) == data["cycles_per_image"]
        assert sum(k["macs"] for k in data["kernels"]) == macs
        assert data["cycles_per_image"] < 1.1 * macs
        assert f"module {name}(" in (tmp_path / f"{name}.v").read_text()
        assert f"module \\{name}\n" in (tmp_path / f"{name}.il").read_text()
