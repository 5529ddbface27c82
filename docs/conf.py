"""How the pages become a site: `make docs`. Sphinx reads its settings from these names."""

project = "Headgate"
author = "The Headgate authors"
extensions = ["myst_parser"]
myst_heading_anchors = 4
root_doc = "index"
source_suffix = {".md": "markdown"}
exclude_patterns = ["README.md"]
html_theme = "furo"
html_title = "Headgate"
# What a shell prints and where it is typed is marked as such in some pages; neither is highlighted.
suppress_warnings = ["misc.highlighting_failure"]
