"""Write the model files of this folder: PyTorch's two ONNX exporters, a state dict, and what the models compute.

Run by hand, in an environment of its own: ``pip install torch onnx onnxscript && python make.py``.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import nn

HERE = Path(__file__).parent


class Recurrent(nn.Module):
    """LSTM and a linear layer on its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class Residual(nn.Module):
    """Convolutions with batch normalization around a shortcut, depthwise and pointwise ones, global pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.block = nn.Sequential(
            nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False),
            nn.BatchNorm2d(4),
            nn.ReLU6(),
            nn.Conv2d(4, 4, 1),
        )
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        x = self.first(x)
        x = x + self.block(x)
        return self.head(x.mean((2, 3)))


class Attention(nn.Module):
    """One encoder layer of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu", dropout=0.0)

    def forward(self, x):
        return self.layer(x)


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3), nn.Softmax(1)), (1, 6)),
    "residual": (Residual, (1, 2, 6, 6)),
    "lstm": (Recurrent, (1, 5, 4)),
    "attention": (Attention, (1, 4, 8)),
    "audio": (
        lambda: nn.Sequential(
            nn.Conv1d(1, 3, 5, stride=2),
            nn.LeakyReLU(),
            nn.ConvTranspose1d(3, 2, 4, stride=2),
            nn.AvgPool1d(2),
        ),
        (1, 1, 20),
    ),
}


def randomized(model: nn.Module) -> nn.Module:
    """The model with running statistics that are not the identity."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.uniform_(-1, 1)
            module.running_var.uniform_(0.5, 2)
            module.weight.data.uniform_(0.5, 2)
            module.bias.data.uniform_(-1, 1)
    return model.eval()


def main() -> None:
    """Write everything."""
    versions = {"torch": torch.__version__.split("+")[0], "onnx": onnx.__version__, "files": {}}
    for seed, (name, (make, shape)) in enumerate(MODELS.items()):
        torch.manual_seed(seed)
        model = randomized(make())
        x = torch.randn(shape)
        with torch.no_grad():
            y = model(x)
        np.savez(HERE / f"{name}.npz", x=x.numpy(), y=y.numpy())
        torch.save(model.state_dict(), HERE / f"{name}.pth")
        for suffix, options in {
            "dynamo": {"dynamo": True, "external_data": True},
            "traced": {"dynamo": False, "opset_version": 17},
        }.items():
            path = HERE / f"{name}_{suffix}.onnx"
            torch.onnx.export(model, (x,), path, input_names=["x"], output_names=["y"], **options)
            proto = onnx.load(path, load_external_data=False)
            for node in proto.graph.node:
                node.doc_string = ""
                del node.metadata_props[:]
            del proto.graph.metadata_props[:]
            onnx.save(proto, path)
            versions["files"][path.name] = {d.domain or "ai.onnx": d.version for d in proto.opset_import}
    (HERE / "versions.json").write_text(json.dumps(versions, indent=2) + "\n")


if __name__ == "__main__":
    main()
