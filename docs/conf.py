"""Sphinx: the site that ``make docs`` builds. Its sources are the pages of this repository where they lie, so that a
link works on a code host as on the site; nothing on it comes from another machine."""

from dwindle import __version__

project = "dwindle"
author = "The dwindle authors"
project_copyright = "Apache-2.0"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/*.md", "docs/*.md", "docs/*/*.md"]
exclude_patterns = [".*", "build", "demo", "dist", "runs", "src", "tests"]

myst_heading_anchors = 4  # links to headings as code hosts make them

highlight_language = "text"  # a fence without a name is what a terminal shows

default_role = "code"  # a single backtick in a docstring
autodoc_member_order = "bysource"
autodoc_typehints = "signature"

html_theme = "furo"
html_title = "dwindle"
html_favicon = "site/icon.svg"
html_static_path = ["site"]
html_css_files = ["site.css"]
html_extra_path = ["site/index.html"]
html_show_sphinx = False
html_copy_source = False
