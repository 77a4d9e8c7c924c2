"""Run a model symbolically: kernels are collected, none is executed, no tensor of the user changes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tinygrad import Device, Tensor
from tinygrad.engine.jit import JitError
from tinygrad.nn.state import get_state_dict
from tinygrad.uop.ops import Ops, UOp

from tg2hdl_backend.tinygrad_adapter.dialect import strong
from tg2hdl_backend.tinygrad_adapter.model_inputs import TensorSpec, check_arity, model_name, tinygrad_dtype
from tg2hdl_backend.tinygrad_adapter.origins import Origins, noting, origins_of
from tg2hdl_backend.tinygrad_adapter.pending import pending_tensors
from tg2hdl_backend.tinygrad_adapter.symbolic import capture_into, settings, tensor_uops, unchanged_tensors
from tg2hdl_ir import InputError, Tg2hdlError, UnsupportedError
from tg2hdl_ir.errors import model_place

__all__ = [
    "SymbolicTrace",
    "called_function",
    "flat_tensors",
    "plain_function",
    "reachable_tensors",
    "result_graph",
    "store_expressions",
    "trace",
]


@dataclass
class SymbolicTrace:
    """Everything that a symbolic run records.

    Parameters
    ----------
    calls : list of UOp
        Kernels and copies, in execution order.
    var_vals : dict
        Values that variables were bound to.
    inputs, outputs : list of Tensor
        Flat, in order; they keep their buffers alive.
    input_uops, output_uops : list of UOp
        Their buffers.
    weight_uops : dict
        Buffers of the tensors that the model holds, by name.
    shapes : dict
        Their shapes.
    result : Any
        The result of the model.
    once : int
        Number of the first calls, which tinygrad makes only once: updates that tensors waited for before the run.
    origins : Origins
        Methods that made the ops.
    """

    calls: list[UOp] = field(default_factory=list)
    var_vals: dict[str, int] = field(default_factory=dict)
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    input_uops: list[UOp] = field(default_factory=list)
    output_uops: list[UOp] = field(default_factory=list)
    weight_uops: dict[str, UOp] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    result: Any = None
    once: int = 0
    origins: Origins = field(default_factory=Origins)

    def add_linear(self, linear: UOp, var_vals: dict[str, int]) -> None:
        """Called by tinygrad with the kernels of each realization.

        Parameters
        ----------
        linear : UOp
            Schedule of tinygrad.
        var_vals : dict of str to int
            Values of bound Variables by name.
        """
        for call in linear.src:
            self.calls.extend(call.src if call.op is Ops.LINEAR else (call,))
        self.var_vals.update(var_vals)


def trace(model: Callable[..., Any], examples: Sequence[TensorSpec | UOp]) -> SymbolicTrace:
    """Run `model` on empty tensors of the given shapes and collect the kernels.

    Parameters
    ----------
    model : callable
        Function of tensors.
    examples : sequence of TensorSpec or UOp
        Shapes and types, or bound Variables.

    Raises
    ------
    InputError
        When the model fails, returns no tensor, or looks at the data.
    """
    found, updated, pending = _trace(model, examples, (), ())
    if updated or pending:
        # A constant that the model updates needs a buffer of its own, to continue from run to run.
        found, _, _ = _trace(model, examples, updated, pending)
    return found


def _trace(
    model: Callable[..., Any],
    examples: Sequence[TensorSpec | UOp],
    stored: Collection[str],
    early: Sequence[Tensor],
) -> tuple[SymbolicTrace, tuple[str, ...], list[Tensor]]:
    """A run in which the constants `stored` have buffers and the tensors `early` are computed before.

    Returns
    -------
    found : SymbolicTrace
    updated : tuple of str
        Other constants that the model updates.
    pending : list of Tensor
        Other tensors to compute before.
    """
    found = SymbolicTrace()
    function = plain_function(model)
    weights = reachable_tensors(model)
    device = _device_of(weights.values())
    with (
        unchanged_tensors() as created,
        settings(NO_MEMORY_PLANNER=1, JIT=0, TRACEMETA=2),
        noting(),
        capture_into(found),
    ):
        arguments = [
            e if isinstance(e, UOp) else Tensor.empty(*e.shape, dtype=tinygrad_dtype(e.dtype), device=device)
            for e in examples
        ]
        found.inputs = [a for a in arguments if isinstance(a, Tensor)]
        for name in stored:
            weights[name].uop = _on_device(weights[name], device).contiguous().uop
        store_expressions(weights.values())
        if early:
            _scheduled(model, list(early))
        found.once = len(found.calls)
        waiting = list(tensor_uops().values())
        constants = {name: tensor.uop for name, tensor in weights.items() if _is_constant(tensor)}
        before = {name: tensor.uop for name, tensor in weights.items()}
        found.result = _run(model, function, arguments)
        _check_not_rebound(model, weights)
        # An update that no output needs belongs to the run too: the next one continues from it.
        pending = [
            t for n, t in weights.items() if t.uop is not before[n] and not t.uop.has_buffer_identity()
        ]
        updated = tuple(name for name, uop in constants.items() if weights[name].uop is not uop)
        found.outputs = _materialized(found.result, model)
        found.origins = origins_of(found.outputs)
        created.update(tensor_uops())
        needed = UOp.sink(*(t.uop for t in (*found.outputs, *pending, *weights.values()))).toposort()
        others = pending_tensors(waiting, needed)
        _scheduled(model, [*found.outputs, *pending])
        found.output_uops = [t.uop for t in found.outputs]
        found.input_uops = [t.uop for t in found.inputs]
        found.weight_uops = {name: tensor.uop for name, tensor in weights.items()}
        found.shapes = {name: tuple(map(int, tensor.shape)) for name, tensor in weights.items()}
    return found, updated, others


def _scheduled(model: Any, tensors: Sequence[Tensor]) -> None:
    """Have tinygrad schedule tensors, which collects their kernels.

    Raises
    ------
    InputError
        When it cannot.
    """
    try:
        tensors[0].linear_with_vars(*tensors[1:])
    except MemoryError:
        raise
    except Exception as error:
        devices = any(text in str(error) for text in ("same device", "same devices"))
        raise InputError(
            f"tinygrad cannot run the model: {str(error) or type(error).__name__:.500}",
            where=model_place(model_name(model)),
            hint="move its tensors to one device: weight.to(Device.DEFAULT), also those of a file"
            if devices
            else "run it in tinygrad first; call .realize() on each tensor that was changed before its next use",
        ) from error


def result_graph(
    model: Callable[..., Any], arguments: Sequence[Tensor], stored: Mapping[str, UOp] | None = None
) -> tuple[Any, list[Tensor], dict[str, UOp]]:
    """The result of `model` for empty tensors, its tensors with their graphs, and its own tensors that it updates.

    Nothing is scheduled.

    Parameters
    ----------
    stored : mapping of str to UOp, optional
        Buffers in the place of tensors that the model holds.

    Returns
    -------
    result : Any
    outputs : list of Tensor
    updated : dict of str to UOp
        New graphs of the tensors that the model holds and updates, by name.

    Raises
    ------
    InputError
        When the model fails, returns no tensor, or looks at the data.
    UnsupportedError
        When the model computes a tensor while it runs.
    """
    found = SymbolicTrace()
    held = reachable_tensors(model)
    with settings(JIT=0, TRACEMETA=2), capture_into(found), unchanged_tensors():
        for name, uop in (stored or {}).items():
            held[name].uop = uop
        before = {name: tensor.uop for name, tensor in held.items()}
        result = _run(model, plain_function(model), list(arguments))
        _check_not_rebound(model, held)
        outputs = _materialized(result, model)
        updated = {name: tensor.uop for name, tensor in held.items() if tensor.uop is not before[name]}
    if found.calls:
        raise UnsupportedError(
            "the model computes tensors while it runs",
            where=model_place(model_name(model)),
            hint="remove realize() from the model",
        )
    return result, outputs, updated


def plain_function(model: Any) -> Any:
    """The function inside a TinyJit; other models unchanged."""
    inner = getattr(model, "fxn", None)
    return inner if type(model).__name__.lstrip("_") == "TinyJit" and inner is not None else model


def called_function(model: Any, example_inputs: Sequence[Any]) -> tuple[Any, tuple[str, ...]]:
    """The function of a model and the names of its arguments.

    Parameters
    ----------
    model
        Function, or object with ``__call__``.
    example_inputs : sequence

    Raises
    ------
    InputError
        When it cannot be called, or not with as many inputs.
    """
    if not callable(model):
        raise InputError(
            f"a model of type {type(model).__name__} cannot be called",
            hint="pass a function of Tensors, or an object with __call__",
        )
    function = plain_function(model)
    return function, check_arity(function, example_inputs)


def reachable_tensors(model: Any) -> dict[str, Tensor]:
    """Tensors that a model holds: attributes of an object, or values that a function closes over or names."""
    if hasattr(model, "named_weights"):
        return dict(model.named_weights())
    function = plain_function(model)
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, type):
        return get_state_dict(owner)
    if not inspect.isfunction(function):
        return get_state_dict(function)
    found: dict[str, Tensor] = {}
    try:
        scope = inspect.getclosurevars(function)
    except (TypeError, ValueError):
        return found
    for name, value in {**scope.globals, **scope.nonlocals}.items():
        if not inspect.ismodule(value) and not isinstance(value, type):
            if inspect.isfunction(value):
                continue
            found.update(get_state_dict(value, name + "."))
    return {name.strip("."): tensor for name, tensor in found.items()}


def store_expressions(weights: Iterable[Tensor]) -> None:
    """Give weights that are not computed yet a buffer of their own, to compute them once."""
    for tensor in weights:
        if not _is_constant(tensor) and not tensor.uop.has_buffer_identity():
            tensor.uop = tensor.contiguous().uop


def _is_constant(tensor: Tensor) -> bool:
    """Whether it is an expression of constants, which kernels compute where they use it."""
    return tensor.uop.device is None or tensor.uop.base.op is Ops.CONST


def _check_not_rebound(model: Any, weights: Mapping[str, Tensor]) -> None:
    """The hardware has the tensors that the model held before; it cannot follow a name to another one."""
    after = {} if hasattr(model, "named_weights") else reachable_tensors(model)
    for name, tensor in weights.items():
        if after.get(name, tensor) is not tensor:
            raise InputError(
                f"the model puts another tensor in the place of {name}",
                where=model_place(model_name(model)),
                hint=f"update it in place: {name}.assign(...)",
            )


def _run(model: Any, function: Callable[..., Any], arguments: list[Any]) -> Any:
    try:
        return function(*arguments)
    except Tg2hdlError:
        raise
    except JitError:
        raise InputError(
            "the model looks at the data of a tensor while it is compiled",
            where=model_place(model_name(model)),
            hint="replace .item(), .numpy(), .tolist() and Python conditions on tensors by tensor operations "
            "such as Tensor.where",
        ) from None
    except MemoryError:
        raise
    except Exception as error:
        raise InputError(
            f"the model failed on the example inputs: {type(error).__name__}: {error}",
            where=model_place(model_name(model)),
            notes=tuple(_describe(a) for a in arguments if isinstance(a, Tensor)),
            hint="run it in tinygrad with inputs of these shapes and dtypes first",
        ) from error


def _materialized(result: Any, model: Any) -> list[Tensor]:
    tensors = list(flat_tensors(result))
    if not tensors:
        raise InputError(
            f"the model returns {type(result).__name__}, not a Tensor",
            where=model_place(model_name(model)),
            hint="return a Tensor, or a list, tuple or dict of Tensors",
        )
    for tensor in tensors:
        if 0 in tensor.shape or not all(isinstance(s, int) for s in tensor.shape):
            raise UnsupportedError(
                f"an output of shape {tensor.shape}",
                where=model_place(model_name(model)),
                hint="return tensors of a constant shape with at least one element",
            )
    return [_concrete(t) for t in tensors]


def _concrete(tensor: Tensor) -> Tensor:
    tensor = strong(tensor)
    if tensor.uop.device is None:
        return _on_device(tensor, Device.DEFAULT)
    return tensor.contiguous()


def _on_device(tensor: Tensor, device: str) -> Tensor:
    """The tensor, with a device when it has none."""
    if tensor.uop.device is not None:
        return tensor
    return (
        tensor.clone(device) if "device" in inspect.signature(tensor.clone).parameters else tensor.to(device)
    )


def flat_tensors(result: Any) -> Iterator[Tensor]:
    """Tensors in the result of a model, in order."""
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, dict):
        for value in result.values():
            yield from flat_tensors(value)
    elif isinstance(result, list | tuple):
        for value in result:
            yield from flat_tensors(value)


def _device_of(tensors: Any) -> str:
    for tensor in tensors:
        if isinstance(tensor.device, str) and not tensor.device.startswith(("DISK", "NPY", "TINYFS")):
            return tensor.device
    return Device.DEFAULT


def _describe(tensor: Tensor) -> str:
    return f"example input of shape {tensor.shape}, dtype {tensor.dtype}"
