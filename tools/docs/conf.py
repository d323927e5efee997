"""Sphinx's settings; `tools.docs.site` does the rest."""

from __future__ import annotations

from pathlib import Path

import fastdp

_HERE = Path(__file__).parent

project = "fastdp"
version = release = fastdp.__version__
author = "the fastdp authors"
copyright = "the fastdp authors, Apache-2.0"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "tools.docs.site",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["files/**"]
myst_heading_anchors = 4
suppress_warnings = ["config.cache"]

# numpydoc's own renderer drops the section that this project must have, Privacy.
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_custom_sections = ["Privacy"]
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
add_module_names = False
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 60

_MARK = "_static/mark.svg"
html_theme = "pydata_sphinx_theme"
html_title = "fastdp"
html_static_path = [str(_HERE / "static")]
html_css_files = ["site.css"]
html_favicon = str(_HERE / "static" / "mark.svg")
html_show_sourcelink = False
html_copy_source = False
html_context = {"default_mode": "light"}
html_sidebars: dict[str, list[str]] = {"index": [], "changelog": []}
html_theme_options = {
    "logo": {"text": "fastdp", **dict.fromkeys(("image_light", "image_dark"), _MARK)},
    "header_links_before_dropdown": 8,
    "navbar_align": "left",
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
    "navigation_with_keys": False,
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
