"""A PyTorch network as an ONNX file; needs ``pip install torch onnx onnxscript``.

Run it: ``python export.py`` writes ``net.onnx``.
"""

import torch

torch.manual_seed(0)
net = torch.nn.Sequential(
    torch.nn.Conv2d(1, 4, 3, padding=1),
    torch.nn.BatchNorm2d(4),
    torch.nn.ReLU(),
    torch.nn.MaxPool2d(2),
    torch.nn.Flatten(),
    torch.nn.Linear(64, 3),
).eval()
example = torch.linspace(-1, 1, 64).reshape(1, 1, 8, 8)
torch.onnx.export(net, (example,), "net.onnx", dynamo=True, external_data=False, verbose=False)
print(net(example).tolist())
