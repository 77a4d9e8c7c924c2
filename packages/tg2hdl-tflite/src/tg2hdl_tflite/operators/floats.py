"""Activations of float operators."""

from __future__ import annotations

from tinygrad import Tensor

from tg2hdl_tflite.node import TfliteNode

__all__ = ["activated", "bounded"]


def activated(node: TfliteNode, number: Tensor) -> Tensor:
    """A float result after the fused activation.

    Parameters
    ----------
    node : TfliteNode
        With a fused activation.
    number : Tensor
        Float.
    """
    return bounded(number, node.activation)


def bounded(number: Tensor, activation: str) -> Tensor:
    """The activations that only clip.

    Parameters
    ----------
    number : Tensor
        Float.
    activation : str
        Name in the schema: NONE, RELU, RELU_0_TO_1, RELU6 or RELU_N1_TO_1.
    """
    if activation == "NONE":
        return number
    low, high = {
        "RELU": (0.0, None),
        "RELU_0_TO_1": (0.0, 1.0),
        "RELU6": (0.0, 6.0),
        "RELU_N1_TO_1": (-1.0, 1.0),
    }[activation]
    number = number.maximum(low)
    return number if high is None else number.minimum(high)
