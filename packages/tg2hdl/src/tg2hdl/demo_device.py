"""The demonstration through a serial line: driver, bytes, bridge and kernels, checked bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tg2hdl.bits import same_bits
from tg2hdl.demo import DemoModel
from tg2hdl_host import Device
from tg2hdl_ir import SimulationError

__all__ = ["DeviceResult", "run_on_device"]

_AT_A_TIME = 16


@dataclass(frozen=True)
class DeviceResult:
    """Results of a device on the test images.

    Parameters
    ----------
    reference_accuracy, hardware_accuracy : float
        Share of correct answers, of the float network and of the device.
    images : int
        Images, all of them compared with the golden model.
    cycles, predicted_cycles : int
        Of a run.
    rate : float
        Images per second of the simulated device.
    counters : dict of str to int
        Of the device and the link.
    """

    name: str
    reference_accuracy: float
    hardware_accuracy: float
    images: int
    cycles: int
    predicted_cycles: int
    rate: float
    counters: dict[str, int]


def run_on_device(
    demo: DemoModel, device: Device, *, advance: Callable[[], None] = lambda: None
) -> DeviceResult:
    """Classify every image on a device and compare each result with the golden model.

    Parameters
    ----------
    demo : DemoModel
    device : Device
    advance : callable, optional
        Called after each image.

    Raises
    ------
    SimulationError
        When a bit or the number of cycles is not as predicted.
    """
    accelerator, correct, rates = demo.accelerator, 0, []
    for first in range(0, len(demo.images), _AT_A_TIME):
        images = demo.images[first : first + _AT_A_TIME]
        found = device.run(images)
        rates.append(device.rate)
        for number, (image, output) in enumerate(zip(images, found, strict=True), start=first):
            if not same_bits(output, accelerator.golden(image[None])):
                raise SimulationError(
                    f"device and golden model differ on image {number}",
                    where=accelerator.name,
                    hint="please report this: they must agree in every bit",
                )
            correct += int(np.argmax(output) == demo.labels[number])
            advance()
    counters = device.counters
    if counters["cycles"] != accelerator.predicted_cycles:
        raise SimulationError(
            f"a run took {counters['cycles']} cycles, {accelerator.predicted_cycles} were predicted",
            where=accelerator.name,
            hint="please report this: the prediction must be exact",
        )
    return DeviceResult(
        accelerator.name,
        demo.reference_accuracy,
        correct / len(demo.images),
        len(demo.images),
        counters["cycles"],
        accelerator.predicted_cycles,
        float(np.median(rates)),
        counters,
    )
