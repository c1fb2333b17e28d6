# SPDX-License-Identifier: MIT
"""The public names of posenc's headers, read from Doxygen's XML. Declarations are quoted from the headers themselves."""
import re
import xml.etree.ElementTree as xml
from dataclasses import dataclass, field
from pathlib import Path

NAMESPACE = "posenc::"
HIDDEN = re.compile(r"(^|::)detail(::|$)")


@dataclass
class Name:
    kind: str  # class, struct, concept, enum, enumerator, function, variable, type
    name: str  # as declared: "rotate"
    path: str  # below namespace posenc: "Rope::rotate"
    header: str  # "rotary/rope.hpp"
    line: int
    doc: str
    declaration: str
    members: list = field(default_factory=list)
    bases: list = field(default_factory=list)  # paths of public bases that are public names
    is_specialization: bool = False
    parameters: list = field(default_factory=list)  # [type, name] of a function

    @property
    def scope(self):
        return self.path[: -len(self.name)].removesuffix("::")


@dataclass
class Header:
    path: str
    names: list
    includes: list  # public headers of posenc

    @property
    def folder(self):
        return self.path.partition("/")[0] if "/" in self.path else ""


def text_of(node):
    return "" if node is None else "".join(node.itertext())


def doc_of(node):
    return "\n".join(text_of(v).strip("\n") for v in node.findall("detaileddescription//verbatim")) or "\n".join(
        text_of(v) for v in node.findall("briefdescription//verbatim")
    )


def tidy(code):
    """Returns a type as clang-format would have it; Doxygen puts spaces inside angle brackets."""
    code = re.sub(r"\s+", " ", code).strip()
    code = re.sub(r"(?<=[\w:])< ", "<", code)
    while " >" in code:
        code = code.replace(" >", ">")
    return re.sub(r" ([&*]+)", r"\1", code)


MACROS = re.compile(r"\bPOSENC_(ALWAYS_INLINE|NOINLINE|INLINE_LAMBDA|NO_UNIQUE_ADDRESS|DETAIL_READER)\b\s*")


class Sources:
    def __init__(self, include):
        self.include = include
        self.files = {}

    def lines(self, header):
        if header not in self.files:
            self.files[header] = (self.include / "posenc" / header).read_text().split("\n")
        return self.files[header]

    def declaration(self, header, line, stop_at_brace=True):
        """Returns the declaration around a line: back to the end of the one before it, on to its body or semicolon."""
        lines = self.lines(header)
        first = line - 1
        while first > 0:
            before = lines[first - 1].strip()
            if not before or before.startswith(("//", "#", "POSENC_")) or re.search(r"([;{}\\]|public:|private:)$", before):
                break
            if re.search(r"///<", before):
                break
            first -= 1
        text = "\n".join(lines[first:])
        text = text[: self.end(text, stop_at_brace)]
        text = MACROS.sub("", re.sub(r"[ \t]*//.*", "", text)).rstrip()
        indent = min((len(l) - len(l.lstrip()) for l in text.split("\n") if l.strip()), default=0)
        return "\n".join(l[indent:] for l in text.split("\n") if l.strip())

    @staticmethod
    def end(text, stop_at_brace):
        depth = 0
        position = 0
        while position < len(text):
            rest = text[position:]
            if rest.startswith("//"):
                position = text.index("\n", position)
                continue
            literal = re.match(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])\'', rest)
            if literal:
                position += len(literal[0])
                continue
            c = text[position]
            if depth == 0 and c == ";":
                return position
            if depth == 0 and c == "{" and stop_at_brace and not re.search(r"\brequires\s+requires\b[^;{}]*$", text[:position]):
                return position
            # A constructor's initialisers.
            if depth == 0 and stop_at_brace and re.match(r":(?!:)", rest) and re.search(r"(\)|noexcept)\s*$", text[:position]):
                return position
            if rest.startswith("::"):
                position += 2
                continue
            depth += (c in "({[") - (c in ")}]")
            position += 1
        return len(text)


def closing(text, start):
    """Returns the index after the bracket that closes the one at `start`."""
    pairs = {"(": ")", "[": "]", "{": "}", "<": ">"}
    expected = []
    for position in range(start, len(text)):
        c = text[position]
        if c in pairs and not (c == "<" and text[position : position + 2] in ("< ", "<=")):
            expected.append(pairs[c])
        elif expected and c == expected[-1] and text[position - 1] != "-":
            expected.pop()
            if not expected:
                return position + 1
    return len(text)


def split_parameters(text):
    parts, first, position = [], 0, 0
    while position < len(text):
        if text[position] in "([{<" and text[position : position + 2] not in ("< ", "<="):
            position = closing(text, position)
            continue
        if text[position] == ",":
            parts.append(text[first:position].strip())
            first = position + 1
        position += 1
    return parts + [text[first:].strip()]


WIDTH = 80


def reflow(declaration):
    """Returns a function's declaration with one parameter a line where it is long, so that it can be read on narrow pages."""
    before = []
    rest = declaration
    while True:
        template = re.match(r"template\s*<", rest)
        constraint = re.match(r"requires\s*\(", rest)
        if template or constraint:
            end = closing(rest, (template or constraint).end() - 1)
        elif re.match(r"requires ", rest) and "\n" in rest:
            end = re.match(r"[^\n]*(\n\s+[^\n]*)*", rest).end()
        else:
            break
        before.append(re.sub(r"\(\s+", "(", re.sub(r"\s+", " ", rest[:end])))
        rest = rest[end:].strip()
    rest = re.sub(r"\(\s+", "(", re.sub(r"\s+", " ", rest))
    rest, requires, constraint = re.sub(r"^inline ", "", rest).partition(" requires")
    call = rest.find("(", rest.find("operator()") + len("operator()") if "operator()" in rest else 0)
    if call >= 0 and len(rest) > WIDTH:
        end = closing(rest, call)
        parameters = split_parameters(rest[call + 1 : end - 1])
        rest = rest[: call + 1] + "\n    " + ",\n    ".join(parameters) + rest[end - 1 :]
    return "\n".join(before + [rest] + [f"    requires{constraint}"] * bool(requires))


def field_declaration(node):
    """Returns a data member: written from the XML, because one line of a header may declare several."""
    definition = tidy(text_of(node.find("type")))
    if node.get("static") == "yes":
        definition = "static " + definition
    initializer = re.sub(r"\s+", " ", text_of(node.find("initializer"))).strip()
    if initializer and not initializer.startswith(("=", "{")):
        initializer = " " + initializer
    elif initializer.startswith("="):
        initializer = " = " + initializer[1:].strip()
    return f"{definition} {node.findtext('name')}{text_of(node.find('argsstring'))}{initializer}"


KINDS = {"typedef": "type", "friend": "function"}


def read_member(node, sources, scope):
    location = node.find("location")
    header = location.get("file").removeprefix("posenc/")
    line = int(location.get("line"))
    kind = KINDS.get(node.get("kind"), node.get("kind"))
    name = node.findtext("name")
    path = f"{scope}{name}"
    if node.get("kind") == "friend" and "(" not in text_of(node.find("argsstring")):
        return None  # a friend class or a friend function that is declared elsewhere
    if kind == "variable":
        declaration = field_declaration(node)
    elif kind == "enum":
        declaration = sources.declaration(header, line)
    else:
        declaration = sources.declaration(header, line, kind == "function")
    found = Name(kind, name, path, header, line, doc_of(node), declaration)
    if kind == "function":
        found.declaration = reflow(declaration)
    found.is_specialization = "<" in name and not name.startswith("operator")
    found.parameters = [(tidy(text_of(p.find("type"))), p.findtext("declname", "")) for p in node.findall("param")]
    for value in node.findall("enumvalue"):
        word = value.findtext("name")
        declared = f"{word} {text_of(value.find('initializer'))}".strip()
        found.members.append(Name("enumerator", word, f"{path}::{word}", header, line, doc_of(value), declared))
    return found


def is_public(node):
    return node.get("prot", "public") == "public"


def read(xml_folder, include):
    """Returns the public headers, by path."""
    sources = Sources(Path(include))
    compounds = {}
    for file in sorted(Path(xml_folder).glob("*.xml")):
        if file.name in ("index.xml", "Doxyfile.xml"):
            continue
        for compound in xml.parse(file).getroot().findall("compounddef"):
            compounds[compound.get("id")] = compound

    headers = {}
    for compound in compounds.values():
        if compound.get("kind") == "file":
            path = compound.find("location").get("file").removeprefix("posenc/")
            included = [i.text.removeprefix("posenc/") for i in compound.findall("includes") if i.text.startswith("posenc/")]
            headers[path] = Header(path, [], [i for i in included if "detail/" not in i])

    types = {}
    for identifier, compound in compounds.items():
        kind = compound.get("kind")
        qualified = compound.findtext("compoundname")
        if kind not in ("class", "struct", "union", "concept") or not qualified.startswith(NAMESPACE):
            continue
        path = tidy(qualified.removeprefix(NAMESPACE))
        if not is_public(compound) or HIDDEN.search(re.sub(r"<.*", "", path)):
            continue
        location = compound.find("location")
        header = location.get("file").removeprefix("posenc/")
        line = int(location.get("line"))
        found = Name(kind, path if "<" in path else path.rpartition("::")[2], path, header, line, doc_of(compound),
                     sources.declaration(header, line, kind != "concept"))
        found.is_specialization = "<" in path
        found.bases = [re.sub(r"<.*", "", b.text.removeprefix(NAMESPACE)) for b in compound.findall("basecompoundref")
                       if b.get("prot") == "public" and not HIDDEN.search(re.sub(r"<.*", "", b.text))]
        for member in compound.findall("sectiondef/memberdef"):
            if is_public(member) or member.get("kind") == "friend":
                entry = read_member(member, sources, path + "::")
                if entry:
                    found.members.append(entry)
        found.members.sort(key=lambda n: n.line)
        types[identifier] = found

    top = list(types.values())
    by_path = {n.path: n for n in top}
    for found in list(top):  # nested types
        outer = by_path.get(found.scope)
        if outer and not found.is_specialization:
            outer.members.append(found)
            outer.members.sort(key=lambda n: n.line)
            top.remove(found)
        elif found.scope and not found.is_specialization and found.scope[0].isupper():
            top.remove(found)  # nested in a private class

    for compound in compounds.values():
        qualified = (compound.findtext("compoundname") or "") + "::"
        if compound.get("kind") == "namespace" and qualified.startswith(NAMESPACE) and not HIDDEN.search(qualified):
            for member in compound.findall("sectiondef/memberdef"):
                entry = read_member(member, sources, qualified.removeprefix(NAMESPACE))
                if entry:
                    top.append(entry)

    for found in sorted(top, key=lambda n: n.line):
        headers[found.header].names.append(found)
    return headers


def is_rejection(name):
    """True for an overload whose only purpose is the error message of a wrong call."""
    if name.kind != "function" or name.doc:
        return False
    if re.search(r"detail::(Any[A-Z]|Diagnostic)", name.declaration):
        return True
    unnamed = all(not parameter for _, parameter in name.parameters)
    return unnamed and bool(name.parameters) and bool(re.search(r"requires\s*\(!", name.declaration))


def is_trivial(name):
    """True for a member function that needs no text: defaulted, deleted, an operator that means what it does on numbers."""
    if name.kind != "function" or name.doc:
        return False
    is_defaulted = re.search(r"=\s*(default|delete)$", name.declaration)
    is_operator = re.match(r"operator(?!\(\)|\[\])", name.name) or name.name.startswith("~")
    return bool(is_defaulted or is_operator) or is_rejection(name)


def walk(names):
    for name in names:
        yield name
        yield from walk(name.members)
