"""Sphinx: the site that ``make docs`` builds. Its sources are the pages of this repository where
they lie, so that a link works on a code host as on the site; nothing on it comes from another
machine. Notebooks become pages too: their cells, and below them what ``notebooks/outputs.py`` has
kept of a run."""

import json
from pathlib import Path

from myst_parser.sphinx_ import Parser

from dwindle import __version__

project = "dwindle"
author = "The dwindle authors"
project_copyright = "The dwindle authors; licence: Apache-2.0"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "benchmarks/*.md",
    "docs/*.md",
    "docs/*/*.md",
]
include_patterns += ["docs/notebooks/*.ipynb"]
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
html_js_files = [("site.js", {"defer": "defer"})]
html_extra_path = ["site/index.html"]
html_show_sphinx = False
html_copy_source = False


class NotebookParser(Parser):
    """A notebook read as Markdown: its code in fences, and below each cell what it showed."""

    supported = ("ipynb",)

    def parse(self, inputstring, document):
        kept = Path(document["source"]).with_suffix(".outputs.json")
        document.settings.env.note_dependency(str(kept))
        shown = json.loads(kept.read_text(encoding="utf-8"))
        texts = []
        for cell in json.loads(inputstring)["cells"]:
            text = "".join(cell["source"])
            texts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
            if cell["cell_type"] == "code":
                texts.append(_shown(shown.pop(0)))
        super().parse("\n\n".join(texts), document)


def _shown(output):
    """The text, HTML and figures of a cell."""
    text = f"````text\n{output['text']}\n````" if output["text"] else ""
    # The corner of a data frame is an empty heading, which a screen reader would read as one.
    html = output["html"].replace("<th></th>", "<td></td>")
    image = '<img src="data:image/png;base64,{}" alt="The figure that this cell draws">'
    pieces = [html, *(image.format(figure) for figure in output["figures"])]
    raw = [f'<div class="shown">{piece}</div>' for piece in pieces if piece]
    return "\n\n".join([text, *(f"````{{raw}} html\n{piece}\n````" for piece in raw)])


def setup(app):
    app.add_source_suffix(".ipynb", "ipynb")
    app.add_source_parser(NotebookParser)
