# SPDX-License-Identifier: MIT
"""Sphinx extension: pages of posenc's headers, of its folders and of all names, and their entries in the search.

    posenc-header:: rotary/rope.hpp   all public names of a header
    posenc-folder:: rotary            the headers of a folder, with their names
    posenc-names::                    all names, alphabetically
"""
import posixpath
import re

from docutils import nodes
from pygments.lexers import CppLexer
from pygments.token import STANDARD_TYPES
from sphinx.domains import Domain, ObjType
from sphinx.util.docutils import SphinxDirective

import docstring
import headers as model
from headers import is_rejection, is_trivial

TYPES = ("class", "struct", "concept", "enum", "type")
KIND_NAMES = {"type": "alias"}

TOKEN = re.compile(
    r"`(?P<code>[^`]+)`"
    r"|(?P<url>https?://[^\s,;)]+)"
    r"|(?P<header>\b(?:[a-z]+/)[a-z0-9_]+\.hpp\b)"
    r"|(?P<arxiv>(?<![\d.])\d{4}\.\d{5}(?!\d))"
    r"|(?P<name>(?<![\w.:\"])(?:posenc::)?[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*(?:<[\w:, ]+>)?(?:\(\)|\[\w+\])?)"
)
IDENTIFIER = re.compile(r"(?<![\w.])(?:[A-Za-z_]\w*::)*[A-Za-z_]\w*")


def docname_of(header):
    return "reference/" + header.removesuffix(".hpp")


def anchor_of(path):
    path = path.replace("operator", "operator-")
    for symbol, word in (("==", "equal"), ("+=", "add"), ("()", "call"), ("[]", "at"), ("=", "assign")):
        path = path.replace("operator-" + symbol, "operator-" + word)
    return re.sub(r"[^A-Za-z0-9_]+", "-", path).strip("-")


class Reference:
    """Headers, and where each name is."""

    def __init__(self, xml_folder, include):
        self.headers = model.read(xml_folder, include)
        self.places = {}  # path -> [name, docname, anchor] of each header that has it: attention() is in two
        for header in self.headers.values():
            for name in model.walk(header.names):
                if not name.is_specialization:
                    places = self.places.setdefault(name.path, [])
                    if all(place[1] != docname_of(header.path) for place in places):
                        places.append((name, docname_of(header.path), anchor_of(name.path)))
        for places in self.places.values():
            places.sort(key=lambda p: (posixpath.basename(p[1]) != p[0].name, p[1]))

    def all_places(self):
        for path, places in self.places.items():
            for name, docname, anchor in places:
                yield path, name, docname, anchor

    def find(self, written, scope, docname):
        """Returns the place of a name that is written in a scope of a page, or None."""
        written = re.sub(r"^posenc::|<.*>|\(\)$|\[\w+\]$", "", written)
        while True:
            place = self.member(f"{scope}::{written}" if scope else written, docname)
            if place or not scope:
                return place
            scope = scope.rpartition("::")[0]

    def member(self, path, docname):
        """Returns the place of a path; Rope::rotate is a member of a base class of Rope."""
        if path in self.places:
            return next((p for p in self.places[path] if p[1] == docname), self.places[path][0])
        outer, _, member = path.rpartition("::")
        for base in self.places[outer][0][0].bases if outer in self.places else ():
            place = self.member(f"{base}::{member}", docname)
            if place:
                return place
        return None


def link(docname, place_or_doc, anchor=None):
    target = posixpath.relpath(place_or_doc + ".html", posixpath.dirname(docname) or ".")
    if place_or_doc == docname and anchor:
        target = ""
    return nodes.reference("", "", internal=True, refuri=target + (f"#{anchor}" if anchor else ""))


class Writer:
    """Makes nodes of one page."""

    def __init__(self, reference, docname):
        self.reference = reference
        self.docname = docname
        self.used = set()

    def find(self, written, scope=""):
        return self.reference.find(written, scope, self.docname)

    def find_own(self, name):
        return self.reference.member(name.path, docname_of(name.header))

    def link_to(self, place):
        return link(self.docname, place[1], place[2])

    def inline(self, text, scope, own=""):
        """Returns text with links: names in it, headers, papers."""
        found = []
        end = 0
        for match in TOKEN.finditer(text):
            node = self.token(match, text, scope, own)
            if node is not None:
                found.append(nodes.Text(text[end : match.start()]))
                found.append(node)
                end = match.end()
        found.append(nodes.Text(text[end:]))
        return found

    def token(self, match, text, scope, own):
        written = match[0]
        if match["url"]:
            written = written.rstrip(".")
            return nodes.reference("", written, refuri=written)
        if match["arxiv"]:
            return nodes.reference("", written, refuri="https://arxiv.org/abs/" + written)
        if match["header"]:
            if written not in self.reference.headers:
                return nodes.literal("", written)
            node = link(self.docname, docname_of(written))
            node += nodes.literal("", written)
            return node
        code = match["code"]
        place = self.find(code or written, scope)
        if place and place[0].path == own:
            place = None
        if code:
            if place is None or place[0].kind == "variable":
                return nodes.literal("", code)
        else:
            spelled_as_code = "::" in written or written.endswith(("()", "]", ">")) or "_" in written.strip("_")
            humps = len(re.findall(r"[A-Z][a-z0-9]+", written))
            begins_sentence = not text[: match.start()].rstrip() or text[: match.start()].rstrip()[-1] in ".:;"
            is_type = place and place[0].kind in TYPES and written[0].isupper() and (humps > 1 or not begins_sentence)
            if not spelled_as_code and not is_type:
                return None
            if place and not is_type and place[0].kind == "variable" and "::" not in written:
                place = None
            if place is None:
                return nodes.literal("", written)
        node = self.link_to(place)
        node += nodes.literal("", code or written)
        return node

    def doc(self, text, scope, own=""):
        """Returns the paragraphs and labelled lines of a docstring."""
        found = []
        labels = None
        for block in docstring.blocks(text):
            if block.kind == "label":
                if labels is None:
                    labels = nodes.field_list(classes=["labels"])
                    found.append(labels)
                body = nodes.field_body("", nodes.paragraph("", "", *self.inline(block.text, scope, own)))
                labels += nodes.field("", nodes.field_name("", block.label), body)
                continue
            labels = None
            if block.kind == "formula":
                formula = nodes.literal_block(block.text, block.text, language="text")
                formula["classes"].append("formula")
                found.append(formula)
            else:
                found.append(nodes.paragraph("", "", *self.inline(block.text, scope, own)))
        return found

    def signature(self, code, scope, own=""):
        """Returns a declaration, coloured, whose types are links."""
        parameters = set(re.findall(r"\b(?:class|typename)(?:\.\.\.)? (\w+)", code))
        spans = {}
        for match in IDENTIFIER.finditer(code):
            place = self.find(match[0], scope)
            if place and place[0].kind in TYPES and place[0].path != own and match[0] not in parameters:
                if not scope or place[0].name != scope.rpartition("::")[2]:
                    spans[match.start()] = (match.end(), place)
        block = nodes.literal_block("links inside")  # Sphinx colours a block again if this is its text, and drops links
        target, until, offset = block, 0, 0
        for kind, value in CppLexer(stripnl=False, ensurenl=False).get_tokens(code):
            if offset in spans:
                until, place = spans[offset]
                target = self.link_to(place)
                block += target
            elif offset >= until:
                target = block
            css = STANDARD_TYPES.get(kind, "")
            target += nodes.inline(value, value, classes=[css]) if css and css != "w" else nodes.Text(value)
            offset += len(value)
        return nodes.container("", block, classes=["highlight", "signature"])

    def unique(self, anchor):
        number, unique = 1, anchor
        while unique in self.used:
            number += 1
            unique = f"{anchor}-{number}"
        self.used.add(unique)
        return unique

    def provenance(self, name):
        """Returns the line that tells a name's kind, scope and header."""
        kind = KIND_NAMES.get(name.kind, name.kind)
        if "template" in name.declaration.split("\n")[0] and name.kind != "concept":
            kind += " template"
        line = nodes.paragraph(classes=["provenance"])
        line += nodes.Text(kind + " of ")
        line += nodes.literal("", "posenc" + ("::" + name.scope if name.scope else ""))
        line += nodes.Text(", in ")
        source = link(self.docname, docname_of(name.header))
        source += nodes.literal("", f"<posenc/{name.header}>")
        line += source
        return line

    def section(self, title, anchor):
        section = nodes.section(ids=[self.unique(anchor)], names=[])
        section += nodes.title("", title)
        return section

    def definitions(self, names, scope):
        """Returns data members or enumerators as a list."""
        listed = nodes.definition_list(classes=["members"])
        for name in names:
            term = nodes.term(ids=[self.unique(anchor_of(name.path))])
            term += self.signature(name.declaration, scope, name.path)
            body = nodes.definition("", *(self.doc(name.doc, scope, name.path) or [nodes.paragraph()]))
            listed += nodes.definition_list_item("", term, body)
        return listed

    def functions(self, overloads, scope, provenance):
        first = overloads[0]
        is_constructor = scope.rpartition("::")[2] == first.name
        title = first.name if first.name.startswith("operator") else first.name + "()"
        section = self.section("Constructors" if is_constructor else title, anchor_of(first.path))
        if provenance:
            section += self.provenance(first)
        for overload in overloads:
            section += self.signature(overload.declaration, scope, overload.path)
            section += nodes.container("", *self.doc(overload.doc, scope, overload.path), classes=["overload"])
        return section

    def type(self, name):
        section = self.section(name.path.removeprefix(name.scope + "::"), anchor_of(name.path))
        section += self.provenance(name)
        section += self.signature(name.declaration, name.scope, name.path)
        section += self.doc(name.doc, name.path, name.path)
        for base in name.bases:
            section += self.inherited(base)
        shown = [m for m in name.members if not is_trivial(m)]
        values = [m for m in shown if m.kind == "enumerator"]
        data = [m for m in shown if m.kind == "variable"]
        aliases = [m for m in shown if m.kind == "type"]
        for heading, listed in (("Values", values), ("Types", aliases), ("Data members", data)):
            if listed:
                section += nodes.rubric("", heading)
                section += self.definitions(listed, name.path)
        for nested in [m for m in shown if m.kind in TYPES and m.kind != "type"]:
            section += self.type(nested)
        for overloads in grouped([m for m in shown if m.kind == "function"]):
            section += self.functions(overloads, name.path, False)
        trivial = [m for m in name.members if is_trivial(m) and not is_rejection(m)]
        if trivial:
            section += nodes.rubric("", "Also declared")
            section += self.signature("\n".join(m.declaration + ";" for m in trivial), name.path)
        return section

    def inherited(self, base):
        line = nodes.paragraph("", "Inherits ")
        place = self.find(base)
        if place is None:
            line += nodes.literal("", base)
            return line
        node = self.link_to(place)
        node += nodes.literal("", base)
        line += node
        names = []
        for member in place[0].members:
            if member.kind in ("function", "variable") and not is_trivial(member) and member.name not in names:
                if member.name != place[0].name:
                    names.append(member.name)
        for number, member in enumerate(names):
            line += nodes.Text(": " if number == 0 else ", ")
            node = self.link_to(self.find(f"{place[0].path}::{member}"))
            node += nodes.literal("", member)
            line += node
        return line

    def summary(self, names, with_header=False):
        """Returns one line per name: its first sentence."""
        listed = nodes.bullet_list(classes=["summary"])
        seen = set()
        for name in names:
            key = (name.path, name.header)
            if key in seen or name.is_specialization:
                continue
            seen.add(key)
            line = nodes.paragraph()
            node = self.link_to(self.find_own(name))
            node += nodes.literal("", name.path + ("()" if name.kind == "function" else ""))
            line += node
            if with_header:
                line += nodes.Text(" ")
                line += nodes.inline("", f"{KIND_NAMES.get(name.kind, name.kind)}, {name.header}", classes=["where"])
            sentence = docstring.first_sentence(name.doc)
            if sentence:
                line += nodes.Text(" — ")
                line += self.inline(sentence, name.scope, name.path)
            listed += nodes.list_item("", line)
        return listed

    def header(self, header):
        include = f"#include <posenc/{header.path}>"
        found = [nodes.literal_block(include, include, language="cpp")]
        names = [n for n in header.names if not is_rejection(n)]
        if not names and not header.includes:
            return found + [nodes.paragraph("", "This header has macros alone.")]
        if not names:
            found.append(nodes.paragraph("", "This header has no names of its own. It includes:"))
            listed = nodes.bullet_list(classes=["summary"])
            for path in header.includes:
                if path in self.reference.headers:
                    line = nodes.paragraph()
                    node = link(self.docname, docname_of(path))
                    node += nodes.literal("", path)
                    line += node
                    listed += nodes.list_item("", line)
            return found + [listed]
        if len({n.path for n in names}) > 1:
            found.append(self.summary(names))
        for overloads in grouped([n for n in names if not n.is_specialization]):
            first = overloads[0]
            if first.kind == "function":
                found.append(self.functions(overloads, first.scope, True))
            elif first.kind in ("class", "struct", "enum"):
                found.append(self.type(first))
            else:
                section = self.section(first.name, anchor_of(first.path))
                section += self.provenance(first)
                section += self.signature(first.declaration, first.scope, first.path)
                section += self.doc(first.doc, first.scope, first.path)
                found.append(section)
        special = [n for n in names if n.is_specialization]
        if special:
            section = self.section("Specialisations", "specialisations")
            for name in special:
                section += self.signature(name.declaration, name.scope)
                section += self.doc(name.doc, name.scope)
            found.append(section)
        return found

    def folder(self, folder):
        found = []
        for header in sorted(self.reference.headers.values(), key=lambda h: h.path):
            if header.folder != folder:
                continue
            title = nodes.paragraph(classes=["header-path"])
            node = link(self.docname, docname_of(header.path))
            node += nodes.literal("", header.path)
            title += node
            found.append(title)
            if header.names:
                found.append(self.summary([n for n in header.names if not is_rejection(n)]))
        return found

    def names(self):
        names = [n for h in self.reference.headers.values() for n in h.names if not is_rejection(n)]
        names = [n for n in names if n.scope != "tier::named"]  # the names that POSENC_TIER uses
        found = []
        letter = None
        for name in sorted(names, key=lambda n: (n.name.lower(), n.path)):
            if name.name[0].upper() != letter:
                letter = name.name[0].upper()
                section = self.section(letter, "names-" + letter)
                found.append((section, []))
            found[-1][1].append(name)
        for section, listed in found:
            section += self.summary(listed, with_header=True)
        return [section for section, _ in found]


def grouped(names):
    """Returns lists of overloads, in the order of the first one."""
    groups = {}
    for name in names:
        groups.setdefault((name.path, name.kind), []).append(name)
    return list(groups.values())


CODE = re.compile(r"(?:posenc::)?[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*(?:<[^<>]*>)?(\(.*\))?")


def link_names_in_pages(app, doctree, docname):
    """Makes links of the names that a page of the repository writes as code."""
    if docname.startswith("reference/"):
        return
    for literal in list(doctree.findall(nodes.literal)):
        code = literal.astext()
        match = CODE.fullmatch(code)
        ancestor = literal.parent
        while ancestor is not None and not isinstance(ancestor, (nodes.reference, nodes.title)):
            ancestor = ancestor.parent
        if not match or ancestor is not None:
            continue
        place = app.posenc_reference.find(code[: match.start(1)] if match[1] else code, "", docname)
        is_type = place and place[0].kind in TYPES and code != code.lower()
        if is_type or (place and place[0].kind != "variable" and (match[1] or "::" in code or "_" in code)):
            node = link(docname, place[1], place[2])
            literal.replace_self(node)
            node += literal


class HeaderDirective(SphinxDirective):
    required_arguments = 1

    def run(self):
        reference = self.env.app.posenc_reference
        return Writer(reference, self.env.docname).header(reference.headers[self.arguments[0]])


class FolderDirective(SphinxDirective):
    required_arguments = 1

    def run(self):
        folder = "" if self.arguments[0] == "." else self.arguments[0]
        return Writer(self.env.app.posenc_reference, self.env.docname).folder(folder)


class NamesDirective(SphinxDirective):
    def run(self):
        return Writer(self.env.app.posenc_reference, self.env.docname).names()


class NamesDomain(Domain):
    """Entries of the search: names of namespace posenc before members, members before text."""

    name = "posenc"
    label = "posenc"
    object_types = {
        kind: ObjType(KIND_NAMES.get(kind, kind))
        for kind in ("class", "struct", "concept", "enum", "enumerator", "function", "variable", "type")
    }

    def get_objects(self):
        for path, name, docname, anchor in self.env.app.posenc_reference.all_places():
            if not is_trivial(name):
                priority = 0 if not name.scope or name.scope in ("presets", "tier") else 1
                yield path, path, name.kind, docname, anchor, priority

    def get_type_name(self, type, primary=False):
        return type.lname

    def merge_domaindata(self, docnames, otherdata):
        pass

    def resolve_any_xref(self, *_):
        return []


def setup(app):
    app.add_config_value("posenc_xml", "", "env")
    app.add_config_value("posenc_include", "", "env")
    app.add_directive("posenc-header", HeaderDirective)
    app.add_directive("posenc-folder", FolderDirective)
    app.add_directive("posenc-names", NamesDirective)
    app.add_domain(NamesDomain)

    def load(app):
        app.posenc_reference = Reference(app.config.posenc_xml, app.config.posenc_include)

    app.connect("builder-inited", load)
    app.connect("doctree-resolved", link_names_in_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
