# SPDX-License-Identifier: MIT
"""Sphinx's configuration of posenc's site. docs.cmake passes the folders and the version."""
import os
import re
import sys
from pathlib import Path

from pygments.lexers import PythonLexer

folder = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, folder)

project = "posenc"
author = "posenc"
version = release = os.environ["POSENC_DOCS_VERSION"]
posenc_xml = os.environ["POSENC_DOCS_XML"]
posenc_include = os.environ["POSENC_DOCS_INCLUDE"]

extensions = ["myst_parser", "reference"]
myst_heading_anchors = 4
nitpicky = True
highlight_language = "text"

html_theme = "furo"
html_title = "posenc"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_use_index = False
html_domain_indices = False
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
# A summary of a hit is read by XMLHttpRequest, which browsers forbid to pages of a disk.
html_show_search_summary = False
html_search_scorer = os.path.join(folder, "scorer.js")
html_theme_options = {"footer_icons": []}
pygments_style = "tango"
pygments_dark_style = "monokai"


def follow_system_theme(app, exception):
    """Adds the dark colours for systems that are dark. Debian compiles Furo's style sheet without them."""
    sheet = Path(app.outdir) / "_static/styles/furo.css"
    if exception or not sheet.exists():
        return
    css = sheet.read_text()
    dark = re.search(r'body\[data-theme="?dark"?\]\s*\{([^}]*)\}', css)
    if dark and "prefers-color-scheme" not in css:
        rule = 'body:not([data-theme="light"]) {' + dark[1] + "}"
        sheet.write_text(css + "\n@media screen and (prefers-color-scheme: dark) {\n" + rule + "\n}\n")


def join_scripts(app, exception):
    """Writes Furo's script and the library that it imports as one classic script.

    Debian ships the script unbundled, as a module, and the pages load it as a classic script. Browsers load no module
    from a disk either.
    """
    script = Path(app.outdir) / "_static/scripts/furo.js"
    library = script.with_name("gumshoe-patched.js")
    if exception or not script.exists() or not library.exists():
        return
    text = script.read_text()
    statement = re.search(r'^import Gumshoe from "./gumshoe-patched.js";\n', text)
    if statement:
        script.write_text(library.read_text() + text[statement.end():])


def setup(app):
    app.add_lexer("starlark", PythonLexer)  # of Bazel; a subset of Python
    app.connect("build-finished", follow_system_theme)
    app.connect("build-finished", join_scripts)
