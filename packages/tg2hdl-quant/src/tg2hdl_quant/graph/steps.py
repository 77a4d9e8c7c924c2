"""How each node of a float graph becomes integers, and who needs it how wide.

A node is *stored* when it becomes a tensor of narrow integers: inputs, operands of contractions and products, indexes
of tables, what several nodes read, outputs.  Everything between stored nodes is one sum with a scale for each term.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tg2hdl_ir.errors import UnsupportedError
from tg2hdl_ir.tensors import MOVEMENT, TensorGraph
from tg2hdl_quant.graph.functions import ScalarFunction, find_function
from tg2hdl_quant.graph.simplify import contraction_operands

__all__ = ["Plan", "plan_storage"]

OPERAND, TABLE, INTERNAL, OUTPUT = "operand", "table", "internal", "output"


@dataclass
class Plan:
    """Which nodes are stored, and for whom.

    Parameters
    ----------
    roles : dict of int to set of str
        Stored nodes with what their readers are: ``operand`` of a contraction, index of a ``table``, ``internal`` or
        ``output``.
    functions : dict of int to ScalarFunction
        Nodes that are computed as a function of another.
    """

    graph: TensorGraph
    roles: dict[int, set[str]] = field(default_factory=dict)
    functions: dict[int, ScalarFunction] = field(default_factory=dict)
    uses: list[int] = field(default_factory=list)

    def kind(self, number: int) -> str:
        """What makes a node, which is how `Lowering` computes it; ``unknown`` without an integer form."""
        node = self.graph.nodes[number]
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
            "WHERE": "where",
            "MAX": "maximum",
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

    def is_leaf(self, number: int) -> bool:
        """Whether a sum reads the node as a stored tensor, and does not compute it itself."""
        if self.kind(number) == "move":
            return False
        return self.kind(number) != "sum" or self.uses[number] > 1 or number in self.graph.outputs


def plan_storage(graph: TensorGraph) -> Plan:
    """Find the stored nodes of a simplified graph.

    Raises
    ------
    UnsupportedError
        For an operation that has no integer form; it is named.
    """
    plan = Plan(graph)
    for number in range(len(graph.nodes)):
        function = find_function(graph, number)
        if function is not None:
            plan.functions[number] = function
    plan.uses = _uses(plan)
    for number in graph.outputs:
        _store(plan, number, OUTPUT)
    for number in reversed(range(len(graph.nodes))):
        if number in plan.roles:
            _demand(plan, number)
    return plan


def _uses(plan: Plan) -> list[int]:
    """Readers of each node when functions read only what they are a function of."""
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


def _store(plan: Plan, number: int, role: str) -> None:
    plan.roles.setdefault(number, set()).add(role)


def _demand(plan: Plan, number: int) -> None:
    """Store what a stored node reads."""
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
    elif kind in ("where", "maximum", "compare"):
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
    elif kind == "unknown":
        raise UnsupportedError(
            f"{node.op} of {node.dtype}{list(node.shape)} has no integer form",
            where=f"layer {node.label}" if node.label else f"op {node.op}",
            hint="take it out of the model and run it on the host",
        )


def _read(plan: Plan, number: int, root: bool = False) -> None:
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
