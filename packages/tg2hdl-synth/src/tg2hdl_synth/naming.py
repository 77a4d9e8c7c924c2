"""Translates names of a netlist to the user's terms: kernel, operation, buffer."""

from __future__ import annotations

import re
from typing import Any

from tg2hdl_lower.plan.accesses import Load
from tg2hdl_lower.plan.operations import Operation

__all__ = ["describe", "module_title"]

_NODE = re.compile(r"^(?:v|u)(\d+)_([a-z]+?)(?:_s(\d+))?(?=[_.\[$]|$)")
_DELAYED = re.compile(r"^v(\d+)_(?:s|active|clear)(\d+)(?=[_.\[$]|$)")
_ADDRESS = re.compile(r"^a(\d+)(_step)?(?=[_.\[$]|$)")
_SIMPLE = (
    (re.compile(r"^acc(\d+)(?=[_.\[$]|$)"), "accumulator {0}"),
    (re.compile(r"^i(\d+)(?:_first|_last)?(?=[_.\[$]|$)"), "counter of loop i{0}"),
    (re.compile(r"^advance\d+_i(\d+)"), "step control of loop i{0}"),
    (re.compile(r"^(?:valid|leaf)(\d+)"), "step control"),
    (re.compile(r"^(?:running|busy|finish|phase|done)"), "step control"),
    (re.compile(r"^read_(\d+)_(\d+)"), "read port {1} of buffer {0}"),
    (re.compile(r"^write_(\d+)_(\d+)"), "write port {1} of buffer {0}"),
)


def module_title(module: str, top: Any) -> str:
    """Kernel of a module below the top: ``kernel0`` becomes ``kernel0 (r_128_784)``.

    Parameters
    ----------
    module : str
        Name of an instance in the top.
    top
        The `TopModule` that was synthesized.
    """
    plan = _plan(module, top)
    return module if plan is None else f"{module} ({plan.kernel.name})"


def _plan(module: str, top: Any) -> Any:
    match = re.fullmatch(r"kernel(\d+)", module)
    plans = getattr(top, "plans", ())
    if match and int(match[1]) < len(plans):
        return plans[int(match[1])]
    return getattr(top, "plan", None) if module == "core" else None


def describe(name: str, top: Any) -> str:
    """Kernel and operation, or memory, that a cell or net belongs to; the name itself when nothing is known.

    Parameters
    ----------
    name : str
        Of a cell or net, with dots between the levels.
    top
        The `TopModule` that was synthesized.
    """
    module, _, rest = name.partition(".")
    memory = re.match(r"^memory_([A-Za-z]\w*?)(?=\.|$)", name)
    if memory:
        return f"memory {memory[1]}"
    plan = _plan(module, top)
    if plan is None:
        return _top_level(name, top)
    return f"{plan.kernel.name}: {_in_kernel(rest, plan)}"


def _top_level(name: str, top: Any) -> str:
    chained = re.match(r"^ports\.(\w+)\.\d+", name)
    if chained:
        return f"register at port {chained[1]}"
    multiplier = re.match(r"^multipliers\.m(\d+)(?=[_.\[$]|$)", name)
    if multiplier:
        return f"multiplier {multiplier[1]}"
    if re.match(r"^multipliers\.(?:result|product)(?=[_.\[$]|$)", name):
        return "product of a multiplier"
    for memory in getattr(top, "memories", ()):
        label = re.escape(memory.name)
        if re.match(rf"^{label}_r\d+_\d+(?=[_.\[$]|$)", name):
            return f"output register of memory {memory.name}"
        if re.match(rf"^(?:memory_)?{label}_(?:host_)?(?:raddr|rdata|waddr|wdata|wen)(?=[_.\[$]|$)", name):
            return f"host port of {memory.name}"
        if re.match(rf"^memory_{label}(?=[_.\[$]|$)", name):
            return f"memory {memory.name}"
    return name


def _in_kernel(name: str, plan: Any) -> str:
    match = _DELAYED.match(name)
    if match:
        return f"{_operation(int(match[1]), plan)}, registered for stage {match[2]}"
    match = _NODE.match(name)
    if match:
        return _operation(int(match[1]), plan)
    match = _ADDRESS.match(name)
    if match and int(match[1]) in plan.nodes:
        return f"address {plan.nodes[int(match[1])].form}"
    for pattern, text in _SIMPLE:
        match = pattern.match(name)
        if match:
            return text.format(*match.groups())
    return name


def _operation(number: int, plan: Any) -> str:
    if number not in plan.nodes:
        return f"v{number}"
    node = plan.nodes[number]
    match node:
        case Operation():
            what = node.op
        case Load():
            what = f"load of buffer {node.buffer}"
        case _:
            what = node.label
    return f"{what} (%{number})"
