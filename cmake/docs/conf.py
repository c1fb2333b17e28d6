# SPDX-License-Identifier: MIT
"""Sphinx's configuration of posenc's site. docs.cmake passes the folders and the version."""
import os
import sys

from pygments.lexers import PythonLexer

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

project = "posenc"
author = "posenc"
version = release = os.environ["POSENC_DOCS_VERSION"]
posenc_xml = os.environ["POSENC_DOCS_XML"]
posenc_include = os.environ["POSENC_DOCS_INCLUDE"]

extensions = ["myst_parser", "reference"]
myst_heading_anchors = 4
nitpicky = True

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
html_search_scorer = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scorer.js")
html_theme_options = {"footer_icons": []}
pygments_style = "tango"
pygments_dark_style = "monokai"


def setup(app):
    app.add_lexer("starlark", PythonLexer)  # of Bazel; a subset of Python
