"""How each node of a float graph becomes integers, and who needs it how wide.

A node is *stored* when it becomes a tensor of narrow integers: inputs, operands of contractions and products, indexes
of tables, nodes with several readers, outputs.  Everything between stored nodes is one sum with a scale for each term.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tg2hdl_ir import InputError, UnsupportedError
from tg2hdl_ir.tensors import MOVEMENT, TensorGraph
from tg2hdl_quant.graph.functions import ScalarFunction, find_function
from tg2hdl_quant.graph.simplify import contraction_operands

__all__ = ["StoragePlan", "layer_names", "plan_storage"]

OPERAND, TABLE, INTERNAL, OUTPUT, FLOAT = "operand", "table", "internal", "output", "float"
_IN_FLOAT = "float"
"""Stands for the operation of a node that is computed in float."""


@dataclass
class StoragePlan:
    """Which nodes are stored, and for whom.

    Parameters
    ----------
    graph : TensorGraph
        Nodes that are computed in float have the operation ``float``.
    roles : dict of int to set of str
        Stored nodes with the kinds of readers: ``operand`` of a contraction, index of a ``table``, ``internal`` or
        ``output``; ``float`` where float arithmetic reads a node of float arithmetic or an input.
    functions : dict of int to ScalarFunction
        Nodes that are computed as a function of another.
    contractions : dict of int to str
        Names of all contractions.
    floats : dict of int to str
        Nodes that were chosen to be computed in float, by the name that chose them.
    allow_float : bool
        Whether nodes without an integer form are computed in float too.
    """

    graph: TensorGraph
    contractions: dict[int, str] = field(default_factory=dict)
    floats: dict[int, str] = field(default_factory=dict)
    allow_float: bool = False
    roles: dict[int, set[str]] = field(default_factory=dict)
    functions: dict[int, ScalarFunction] = field(default_factory=dict)
    uses: list[int] = field(default_factory=list)

    def kind(self, number: int) -> str:
        """The kind of a node, by which `Lowering` computes it; ``unknown`` without an integer form."""
        kind = self._kind(number)
        return "float" if kind == "unknown" and self.allow_float else kind

    def _kind(self, number: int) -> str:
        node = self.graph.nodes[number]
        if node.op == _IN_FLOAT:
            return "float"
        if node.op in ("const", "input"):
            return node.op if node.dtype.is_float or node.op == "const" else "exact"
        if not node.dtype.is_float:
            floats = any(self.graph.nodes[s].dtype.is_float for s in node.sources)
            if floats:
                return "compare" if node.op in ("CMPLT", "CMPNE", "CMPEQ") else "unknown"
            return "exact"
        if node.op == "cast":
            return "move" if self.graph.nodes[node.sources[0]].dtype.is_float else "exact"
        if node.op in MOVEMENT:
            return "move"
        if number in self.functions:
            return "function"
        return {
            "max": "max",
            "WHERE": "choice",
            "MAX": "choice",
            "ADD": "sum",
            "MUL": "sum",
            "sum": "sum",
        }.get(node.op, "unknown")

    def contraction(self, number: int) -> tuple[int, int] | None:
        """Operands of the products that a sum adds up; None where it adds up a stored node."""
        operands = contraction_operands(self.graph, number)
        product = self.graph.nodes[number].sources[0] if operands else number
        return None if product in self.functions or (self.uses and self.uses[product] > 1) else operands

    def weighted_operands(self) -> list[int]:
        """Operands of all contractions with weights."""
        found = []
        for number in range(len(self.graph.nodes)):
            operands = self.contraction(number) or ()
            varying = [s for s in operands if self.graph.nodes[s].op != "const"]
            if len(varying) == 1 and varying[0] not in found:
                found.append(varying[0])
        return found

    def is_float(self, number: int) -> bool:
        """Whether float arithmetic computes a node, perhaps in another order of its elements."""
        return self.kind(self.below_moves(number)) == "float"

    def below_moves(self, number: int) -> int:
        """The node whose elements are moved."""
        while self.kind(number) == "move":
            number = self.graph.nodes[number].sources[0]
        return number

    def is_leaf(self, number: int) -> bool:
        """Whether a sum reads the node as a stored tensor, and does not compute it itself."""
        if self.kind(number) == "move":
            return False
        return self.kind(number) != "sum" or self.uses[number] > 1 or number in self.graph.outputs


def plan_storage(
    graph: TensorGraph, float_layers: Iterable[str] = (), allow_float: bool = False
) -> StoragePlan:
    """Find the stored nodes of a simplified graph.

    Parameters
    ----------
    float_layers : iterable of str
        Layers or methods to compute in float.
    allow_float : bool
        Whether nodes without an integer form are computed in float, or refused.

    Raises
    ------
    InputError
        For a name that no layer and no method has.
    UnsupportedError
        For an operation that has no integer form; it is named.
    """
    plan = _with_functions(StoragePlan(graph))
    plan.contractions = _contraction_names(plan)
    floats = _chosen_in_float(plan, float_layers)
    if floats:
        nodes = tuple(replace(n, op=_IN_FLOAT) if k in floats else n for k, n in enumerate(graph.nodes))
        masked = replace(graph, nodes=nodes)
        plan = _with_functions(StoragePlan(masked, contractions=plan.contractions, floats=floats))
    plan.allow_float = allow_float
    for number in graph.outputs:
        _store(plan, number, FLOAT if plan.is_float(number) else OUTPUT)
    for number in reversed(range(len(graph.nodes))):
        if number in plan.roles:
            _demand(plan, number)
    return plan


def _with_functions(plan: StoragePlan) -> StoragePlan:
    for number in range(len(plan.graph.nodes)):
        function = find_function(plan.graph, number)
        if function is not None:
            plan.functions[number] = function
    plan.uses = _uses(plan)
    return plan


def _contraction_names(plan: StoragePlan) -> dict[int, str]:
    """A unique name for each contraction: its weight's, or its method's with a number."""
    graph = plan.graph
    taken: dict[str, int] = {}
    names = {}
    for number, node in enumerate(graph.nodes):
        operands = plan.contraction(number)
        if operands is not None:
            label = next((graph.nodes[s].label for s in operands if graph.nodes[s].op == "const"), "")
            stem = label.removesuffix(".weight") or node.label or "matmul"
            taken[stem] = taken.get(stem, 0) + 1
            names[number] = stem if taken[stem] == 1 else f"{stem}#{taken[stem]}"
    return names


def _chosen_in_float(plan: StoragePlan, wanted: Iterable[str]) -> dict[int, str]:
    """Nodes of layers and methods by name."""
    graph = plan.graph
    readers = graph.consumers()
    found: dict[int, str] = {}
    computed = [
        n for n, v in enumerate(graph.nodes) if v.dtype.is_float and v.op not in MOVEMENT | {"const", "input"}
    ]
    methods = {graph.nodes[n].label for n in computed}
    for name in wanted:
        layer = next((n for n, known in plan.contractions.items() if known == name), None)
        if name in methods and name:
            found |= {n: name for n in computed if graph.nodes[n].label == name}
        elif layer is not None:
            found |= dict.fromkeys((graph.nodes[layer].sources[0], layer), name)
            bias = _bias(graph, readers, layer)
            if bias is not None:
                found[bias] = name
        else:
            known = sorted({*plan.contractions.values(), *methods} - {""})
            raise InputError(
                f"no layer or method {name!r} to leave in float", hint="one of: " + ", ".join(known)
            )
    return found


def _bias(graph: TensorGraph, readers: list[list[int]], number: int) -> int | None:
    """The addition of a constant that is the only reader of a contraction."""
    while len(readers[number]) == 1 and number not in graph.outputs:
        number = readers[number][0]
        node = graph.nodes[number]
        if node.op == "ADD" and any(graph.nodes[s].op == "const" for s in node.sources):
            return number
        if node.op not in MOVEMENT:
            break
    return None


def _uses(plan: StoragePlan) -> list[int]:
    """Readers of each node when functions read only their arguments."""
    graph = plan.graph
    uses = [0] * len(graph.nodes)
    wanted = set(graph.outputs)
    for number in reversed(range(len(graph.nodes))):
        if number not in wanted:
            continue
        function = plan.functions.get(number)
        sources = graph.nodes[number].sources if function is None else (function.base,)
        for source in dict.fromkeys(sources):
            uses[source] += 1
            wanted.add(source)
    return uses


def _store(plan: StoragePlan, number: int, role: str) -> None:
    plan.roles.setdefault(number, set()).add(role)


def _demand(plan: StoragePlan, number: int) -> None:
    """Store the operands of a stored node."""
    graph = plan.graph
    node = graph.nodes[number]
    kind = plan.kind(number)
    roles = plan.roles[number]
    if kind in ("move", "max"):
        for role in roles:
            _store(plan, node.sources[0], role)
    elif kind == "function":
        function = plan.functions[number]
        if function.clip is None:
            _store(plan, function.base, TABLE)
        else:
            _read(plan, function.base)
    elif kind in ("choice", "compare"):
        for source in node.sources:
            if graph.nodes[source].dtype.is_float:
                if kind == "compare":
                    _store(plan, source, INTERNAL)
                else:
                    _read(plan, source)
            else:
                _store(plan, source, INTERNAL)
    elif kind == "sum":
        _read(plan, number, root=True)
    elif kind == "exact":
        for source in node.sources:
            _store(plan, source, INTERNAL)
    elif kind == "float":
        for source in node.sources:
            below = plan.below_moves(source)
            if plan.kind(below) in ("float", "input") and graph.nodes[source].dtype.is_float:
                _store(plan, source, FLOAT)
            elif graph.nodes[source].dtype.is_float:
                _read(plan, source)
            else:
                _store(plan, source, INTERNAL)
    elif kind == "unknown":
        raise UnsupportedError(
            f"{node.op} of {node.dtype}{list(node.shape)} has no integer form",
            where=f"layer {node.label}" if node.label else f"op {node.op}",
            hint="allow_float=True computes it in float, or run it on the host",
        )


def _read(plan: StoragePlan, number: int, root: bool = False) -> None:
    """Store the leaves of a sum."""
    graph = plan.graph
    node = graph.nodes[number]
    if plan.kind(number) == "const":
        return
    if not root and plan.is_leaf(number):
        _store(plan, number, INTERNAL)
    elif plan.kind(number) == "move":
        _read(plan, node.sources[0])
    elif node.op == "ADD":
        for source in node.sources:
            _read(plan, source)
    elif node.op == "MUL":
        varying = [s for s in node.sources if graph.nodes[s].op != "const"]
        if len(varying) == 1:
            _read(plan, varying[0])
        else:
            for source in varying:
                _store(plan, source, INTERNAL)
    else:
        operands = plan.contraction(number)
        if operands is None:
            _store(plan, node.sources[0], INTERNAL)
        else:
            for source in operands:
                if graph.nodes[source].op != "const":
                    _store(plan, source, INTERNAL if operands[0] == operands[1] else OPERAND)


def layer_names(plan: StoragePlan) -> list[str]:
    """A unique name for each node: its weight's, or its method's with a number."""
    graph = plan.graph
    taken = Counter(name.partition("#")[0] for name in plan.contractions.values())
    names = [""] * len(graph.nodes)

    def unique(stem: str) -> str:
        taken[stem] += 1
        return stem if taken[stem] == 1 else f"{stem}#{taken[stem]}"

    for number, name in plan.contractions.items():
        names[number] = name
    for number, node in enumerate(graph.nodes):
        if names[number]:
            continue
        if node.op == "input":
            names[number] = unique(node.label or "input")
        elif number in plan.roles:
            inner = _contraction_below(plan, number, names)
            method = node.label if node.label and not node.label.startswith("__") else ""
            stem = f"{inner}.{method or 'out'}" if inner else method or node.op.lower()
            names[number] = unique(stem)
    return [name or node.label or node.op for name, node in zip(names, graph.nodes, strict=True)]


def _contraction_below(plan: StoragePlan, number: int, names: list[str]) -> str:
    """Name of the one contraction that a sum is made of."""
    graph = plan.graph
    function = plan.functions.get(number)
    stack = [number if function is None else function.base]
    found: list[str] = []
    while stack:
        current = stack.pop()
        node = graph.nodes[current]
        if plan.contraction(current) is not None:
            found.append(names[current])
        elif plan.kind(current) in ("move", "sum") and (current == number or current not in plan.roles):
            stack.extend(s for s in node.sources if graph.nodes[s].op != "const")
    return found[0] if len(found) == 1 else ""
