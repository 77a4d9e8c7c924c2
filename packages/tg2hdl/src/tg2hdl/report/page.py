"""The page of a report: its sections, from this package and from plugins, in one template."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from tg2hdl.html_templates import environment
from tg2hdl.report.context import ReportContext
from tg2hdl.report.facts import gather_facts, read_facts
from tg2hdl.report.kernel_page import kernel_pages
from tg2hdl.report.sweep import PART, swept
from tg2hdl.report.waveform import recorded_waves
from tg2hdl_ir import ReportSection, Tg2hdlError, registry, resolve
from tg2hdl_ir.files import write_files

if TYPE_CHECKING:
    import numpy as np

    from tg2hdl.compiled_model import CompiledModel
    from tg2hdl.results import SimulationResult
    from tg2hdl_synth import SynthesisResult

__all__ = ["Report", "build_report", "page_of"]


@dataclass(frozen=True, eq=False)
class Report:
    """A report; shows itself in Jupyter.

    Parameters
    ----------
    html : str
        The whole page, without references to other files.
    facts : dict
        Its figures; see `tg2hdl.report.gather_facts`.
    """

    html: str
    facts: dict[str, Any]

    def save(self, path: str | PathLike[str]) -> tuple[Path, Path]:
        """Write the page to `path` and its figures to the same name with ``.json``; returns both."""
        page = Path(path)
        figures = page.with_suffix(".json")
        write_files(
            page.parent, {page.name: self.html, figures.name: json.dumps(self.facts, indent=2) + "\n"}
        )
        return page, figures

    def _repr_html_(self) -> str:
        loader = environment().get_template("notebook.html.j2").render(packed=Markup(_packed(self.html)))
        frame = '<iframe style="width:100%;height:720px;border:0" srcdoc="{}"></iframe>'
        return str(Markup(frame).format(loader))


def build_report(
    accelerator: CompiledModel,
    inputs: Sequence[np.ndarray] = (),
    simulation: SimulationResult | None = None,
    synthesis: SynthesisResult | None = None,
    against: str | PathLike[str] | Mapping[str, Any] | None = None,
    *,
    sweep: float = 0,
    part: str = PART,
    progress: Callable[[str], None] = lambda message: None,
) -> Report:
    """The report of a compiled model.

    Parameters
    ----------
    inputs : sequence of ndarray
        One per input of the model: the run whose numbers are shown.
    simulation : SimulationResult, optional
        A run on simulated hardware.
    synthesis : SynthesisResult, optional
    against : path or mapping, optional
        JSON file of an earlier report to compare with, or its figures.
    sweep : float
        Seconds for planning the design with other numbers of multipliers; 0 leaves that out.
    part : str
        FPGA part for whose area these designs are estimated.
    progress : callable, optional
        Called with a message before each of them.

    Raises
    ------
    InputError
        When `against` is not the JSON of a report.
    """
    earlier = against if against is None or isinstance(against, Mapping) else read_facts(against)
    facts = gather_facts(accelerator, inputs, simulation, synthesis)
    if sweep:
        facts["sweep"] = swept(accelerator, part, sweep, progress)
    context = ReportContext(accelerator, facts, synthesis, None if earlier is None else dict(earlier))
    sections = []
    for section in registry().report_sections():
        body = _rendered(section, context)
        if body:
            sections.append({"name": section.name, "title": section.title, "body": body})
    waves = recorded_waves(accelerator, inputs) if simulation is not None and inputs else {}
    return Report(page_of(facts["name"], sections, kernel_pages(accelerator, facts, waves)), facts)


def page_of(name: str, sections: Sequence[Mapping[str, Any]], pages: Sequence[str] = ()) -> str:
    """The HTML of a page: its sections, and pages of kernels that nodes of the graph open.

    Parameters
    ----------
    name : str
        Of the design.
    sections : sequence of mapping of str to object
        Title and HTML of each.
    pages : sequence of str, optional
        HTML of each kernel.
    """
    packed = Markup(_packed(json.dumps(list(pages)))) if pages else ""
    return environment().get_template("page.html.j2").render(name=name, sections=sections, pages=packed)


def _packed(text: str) -> str:
    """Compressed text, for a script element."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _rendered(section: ReportSection, context: ReportContext) -> Markup:
    """HTML of a section; a section of a plugin that fails is a line that names the plugin."""
    try:
        return Markup(resolve(section.render)(context))
    except Tg2hdlError:
        raise
    except Exception as error:
        if registry().distribution(section) == "tg2hdl":
            raise
        plugin = registry().plugin(section)
        text = '<p class="problem">The section {} of plugin {} failed: {}: {}</p>'
        return Markup(text).format(section.name, plugin, type(error).__name__, error)
