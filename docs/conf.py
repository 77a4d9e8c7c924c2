"""The documentation site: `hatch run docs:build`; warnings are errors."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "tg2hdl"
author = copyright = "the tg2hdl authors"
html_title = "tg2hdl"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "sphinx_copybutton",
    "generated",
]
exclude_patterns = ["_build"]
myst_enable_extensions = ["deflist", "colon_fence"]
myst_heading_anchors = 3
# Pages are read in the repository, too: links to files outside of the site lead there.
suppress_warnings = ["myst.xref_missing"]
default_role = "code"
napoleon_google_docstring = False
napoleon_use_rtype = False
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
html_theme = "furo"
copybutton_prompt_text = "$ "
