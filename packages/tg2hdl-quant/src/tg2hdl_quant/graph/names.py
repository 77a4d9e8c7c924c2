"""Names of layers, as a report and an error call them."""

from __future__ import annotations

from collections import Counter

from tg2hdl_quant.graph.steps import Plan

__all__ = ["layer_names"]


def layer_names(plan: Plan) -> list[str]:
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


def _contraction_below(plan: Plan, number: int, names: list[str]) -> str:
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
