"""The graph of the model: kernels with their cycles and memory, tensors with shape and bits."""

from __future__ import annotations

from markupsafe import Markup

from tg2hdl.html_templates import environment
from tg2hdl.report.charts import as_json
from tg2hdl.report.context import ReportContext
from tg2hdl.report.model_graph import graph_of

__all__ = ["render"]


def render(context: ReportContext) -> str:
    """The graph, which the page's script lays out; and that of an earlier report, if there is one."""
    template = environment().get_template("graph.html.j2")
    body = template.render(name="graph", graph=as_json(graph_of(context.facts)))
    if context.earlier and "tensors" in context.earlier:
        graph = graph_of(context.earlier)
        graph["nodes"] = [{k: v for k, v in node.items() if k != "kernel"} for node in graph["nodes"]]
        earlier = template.render(name="graph-before", graph=as_json(graph))
        title = Markup("<h3>Before: {}, {:,} cycles</h3>").format(
            context.earlier["name"], context.earlier["cycles"]
        )
        now = Markup("<h3>Now: {:,} cycles</h3>").format(context.facts["cycles"])
        body = f'<div class="beside"><div>{now}{body}</div><div>{title}{earlier}</div></div>'
    return Markup(body)
