# SPDX-License-Identifier: MIT
"""Finds the mutants of the library's headers in clang's syntax tree, and writes them as schemata.

A point is an expression that mutants replace; each of its alternatives is a mutant. Points inside templates are found in
the template, where types are not known: what does not compile, or has no meaning for the types that occur, is left out
when that is seen.
"""
import collections
import hashlib
import pathlib
import re
import sys

sys.path.append("/usr/lib/python3/dist-packages")  # Debian's python3-clang, for whichever python3 runs
from clang import cindex  # noqa: E402
from clang.cindex import CursorKind as Kind  # noqa: E402

FUNCTIONS = {Kind.FUNCTION_DECL, Kind.CXX_METHOD, Kind.FUNCTION_TEMPLATE, Kind.CONSTRUCTOR, Kind.DESTRUCTOR,
             Kind.CONVERSION_FUNCTION}
CLASSES = {Kind.CLASS_DECL, Kind.STRUCT_DECL, Kind.CLASS_TEMPLATE, Kind.CLASS_TEMPLATE_PARTIAL_SPECIALIZATION,
           Kind.NAMESPACE, Kind.UNEXPOSED_DECL, Kind.FRIEND_DECL, Kind.LINKAGE_SPEC}
# What the compiler evaluates, and what has no expressions.
SKIPPED = {Kind.STATIC_ASSERT, Kind.ENUM_DECL, Kind.TEMPLATE_TYPE_PARAMETER, Kind.TEMPLATE_NON_TYPE_PARAMETER,
           Kind.TEMPLATE_TEMPLATE_PARAMETER, Kind.TYPE_ALIAS_DECL, Kind.TYPE_ALIAS_TEMPLATE_DECL, Kind.ASM_STMT,
           Kind.DECL_REF_EXPR, Kind.CONCEPT_DECL if hasattr(Kind, "CONCEPT_DECL") else Kind.STATIC_ASSERT}
DECLARATIONS = {Kind.VAR_DECL, Kind.FIELD_DECL, Kind.PARM_DECL}

ARITHMETIC = {"+": ("add", "-"), "-": ("subtract", "+"), "*": ("multiply", "+"), "/": ("divide", "*"),
              "%": ("remainder", "*"), "&": ("bit_and", "|"), "|": ("bit_or", "&"), "^": ("bit_xor", "|"),
              "<<": ("shift_left", ">>"), ">>": ("shift_right", "<<")}
COMPARISONS = {"<": ("less", "<="), "<=": ("less_equal", "<"), ">": ("greater", ">="), ">=": ("greater_equal", ">"),
               "==": ("equal", "!="), "!=": ("not_equal", "==")}
ASSIGNMENTS = {"+=": ("add_to", "-="), "-=": ("subtract_from", "+="), "*=": ("multiply_by", "+="),
               "/=": ("divide_by", "*=")}

# Statements that change times alone, or guard against a compiler's flags.
WITHOUT_RESULT = re.compile(r"(posenc::|detail::)*(prefetch\w*|pin_in_register|prevent_contraction|check_strict_fp_order|"
                            r"static_cast<void>|assert|static_assert|\w+\.reserve|\w+\.prefetch\w*)\b")
# Calls whose first two arguments may be exchanged.
COMMUTATIVE = re.compile(r"(std::|detail::|posenc::)*(mul_add|fma|min|max|two_sum|two_product|checked_add|checked_mul|"
                         r"swap|rows_overlap|equal|hypot)(<.*>)?$|\(std::(min|max)\)$|"
                         r"_mm\w*_(xor|and|or|add|mul|min|max|fn?madd|fn?msub)_\w+$")


class Point:
    """An expression, and the text that is inserted around its parts."""

    def __init__(self, file, function, line, extent, alternatives, rank=1):
        self.file, self.function, self.line, self.extent = file, function, line, extent
        self.alternatives, self.rank = alternatives, rank  # what each alternative does
        self.opened, self.closed, self.replaced = [], [], []  # (offset, text), (offset, text), (start, end, text)


def is_balanced(text):
    return all(text.count(a) == text.count(b) for a, b in ("()", "[]", "{}"))


class Finder:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.points = []
        self.texts = {}

    def text_of(self, file):
        if file not in self.texts:
            self.texts[file] = (self.root / file).read_text(encoding="latin-1")
        return self.texts[file]

    def find(self, arguments):
        """Fills points with those of all headers in folders."""
        headers = sorted(p.relative_to(self.root).as_posix() for p in self.root.glob("posenc/*/**/*.hpp"))
        unit = "".join(f"#include <{header}>\n" for header in headers)
        tree = cindex.Index.create().parse("all.cpp", args=arguments + [f"-I{self.root}"], unsaved_files=[("all.cpp", unit)])
        errors = [d for d in tree.diagnostics if d.severity >= cindex.Diagnostic.Error]
        if errors:
            raise SystemExit("clang rejects the headers: " + "\n".join(map(str, errors[:5])))
        prefix = str(self.root) + "/"
        for cursor in tree.cursor.get_children():
            name = cursor.location.file.name if cursor.location.file else ""
            if name.startswith(prefix + "posenc/") and name[len(prefix):] in headers:
                self.file = name[len(prefix):]
                self.text = self.text_of(self.file)
                self.walk(cursor, None, "")
        return self.points

    # --- the tree

    def walk(self, cursor, parent, function):
        kind = cursor.kind
        if kind in SKIPPED:
            return
        start, end = cursor.extent.start.offset, cursor.extent.end.offset
        text = self.text[start:end]
        if text.startswith(("concept ", "requires", "template for")):
            return
        if kind in DECLARATIONS or kind == Kind.UNEXPOSED_DECL:
            before_name = self.text[start:cursor.location.offset]
            after_name = self.text[cursor.location.offset + len(cursor.spelling):][:1]
            if "constexpr" in before_name and after_name != "(" and ")" not in before_name:
                return
        if kind in FUNCTIONS:
            owner = cursor.semantic_parent
            is_member = owner is not None and owner.kind in CLASSES and owner.kind != Kind.NAMESPACE
            function = (owner.spelling + "::" if is_member else "") + (cursor.spelling if cursor.spelling.startswith("operator") else re.sub(r"<.*>$", "", cursor.spelling))
            if "consteval" in text.split("{")[0] or text.endswith("default"):
                return
        children = list(cursor.get_children())
        for n, child in enumerate(children):
            if self.is_evaluated_by_compiler(kind, text, n, child):
                continue
            self.walk(child, cursor, function)
        if kind.is_statement() or kind.is_expression() or kind in DECLARATIONS:
            self.add_points(cursor, children, parent, function)

    def is_evaluated_by_compiler(self, kind, text, n, child):
        if kind == Kind.IF_STMT and n == 0 and text.startswith("if constexpr"):
            return True
        if kind == Kind.CASE_STMT and n == 0:
            return True
        if kind in FUNCTIONS and child.kind.is_expression():
            return kind != Kind.CONSTRUCTOR
        return kind in CLASSES and child.kind.is_expression()

    # --- points

    def new_point(self, function, start, end, alternatives, rank=1):
        """Returns a point of text [start, end), or None if that is part of a macro or a template's argument."""
        text = self.text[start:end]
        if not function or not text or not is_balanced(text) or self.text[end:end + 1] == ">" or self.text[start - 1] == "<":
            return None
        point = Point(self.file, function, self.text.count("\n", 0, start) + 1, (start, end), alternatives, rank)
        self.points.append(point)
        return point

    def wrap(self, function, start, end, alternatives, before, after, rank=1):
        point = self.new_point(function, start, end, alternatives, rank)
        if point:
            point.opened.append((start, before))
            point.closed.append((end, after))
        return point

    def is_macro(self, cursor):
        """True if the cursor's text is not what it was parsed from: its first token is a macro's name."""
        return re.match(r"[A-Z][A-Z0-9_]{3,}\b", self.text[cursor.extent.start.offset:]) is not None

    def add_points(self, cursor, children, parent, function):
        kind = cursor.kind
        start, end = cursor.extent.start.offset, cursor.extent.end.offset
        if kind in (Kind.BINARY_OPERATOR, Kind.COMPOUND_ASSIGNMENT_OPERATOR, Kind.CALL_EXPR) and len(children) >= 2:
            self.add_operator(children[0], children[-1], start, end, cursor, function)
        if kind == Kind.IF_STMT and children[0].kind.is_expression() and not self.text[start:].startswith("if constexpr"):
            self.add_condition(children[0], function)
        if kind == Kind.CONDITIONAL_OPERATOR:
            self.add_condition(children[0], function)
        if kind == Kind.COMPOUND_STMT:
            for child in children:
                self.add_statement(child, function)
        if kind == Kind.IF_STMT:
            for child in children[1:]:
                self.add_statement(child, function)
        if kind in (Kind.FOR_STMT, Kind.WHILE_STMT, Kind.CXX_FOR_RANGE_STMT) and children:
            self.add_statement(children[-1], function)
        if kind == Kind.UNARY_OPERATOR and self.text[start] == "-" and self.text[start + 1] != "-" and \
                not children[0].kind in (Kind.INTEGER_LITERAL, Kind.FLOATING_LITERAL):
            point = self.new_point(function, start, end, ["without minus"])
            if point:
                point.replaced.append((start, start + 1, ""))
                point.opened.append((start, "::posenc_mutation::minus({n}, "))
                point.closed.append((end, ")"))
        if kind in (Kind.INTEGER_LITERAL, Kind.FLOATING_LITERAL, Kind.CXX_BOOL_LITERAL_EXPR):
            self.add_literal(cursor, parent, function, start, end)
        if kind == Kind.CALL_EXPR:
            self.add_exchange(cursor, children, function)

    def add_operator(self, left, right, start, end, cursor, function):
        left_end, right_start = left.extent.end.offset, right.extent.start.offset
        if left.extent.start.offset != start or right.extent.end.offset != end or left_end >= right_start:
            return
        operator = self.text[left_end:right_start].strip()
        if self.is_macro(left) or self.is_macro(right) or not is_balanced(self.text[start:left_end]):
            return
        at = self.text.index(operator, left_end) if operator else 0
        if operator in ("&&", "||"):
            first = "(::posenc_mutation::is_chosen({n}) || (" if operator == "&&" else "(!::posenc_mutation::is_chosen({n}) && ("
            point = self.new_point(function, start, end, ["without left side", "without right side"])
            if point:
                point.opened += [(start, first), (right_start, first.replace("{n}", "{n1}"))]
                point.closed += [(left_end, "))"), (end, "))")]
            return
        if operator in ARITHMETIC:
            if "string" in cursor.type.spelling or "ostream" in cursor.type.spelling:
                return
            name, other = ARITHMETIC[operator]
            alternatives = [f"{operator} becomes {other}", "without right side"]
            if operator in ("<<", ">>", "&", "|", "^"):
                alternatives = alternatives[:1]
        elif operator in COMPARISONS:
            name, other = COMPARISONS[operator]
            alternatives = [f"{operator} becomes {other}"]
        elif operator in ASSIGNMENTS:
            name, other = ASSIGNMENTS[operator]
            alternatives = [f"{operator} becomes {other}"]
        else:
            return
        point = self.new_point(function, start, end, alternatives)
        if point:
            point.opened.append((start, f"::posenc_mutation::{name}({{n}}, "))
            point.replaced.append((at, at + len(operator), ","))
            point.closed.append((end, ")"))

    def add_condition(self, condition, function):
        start, end = condition.extent.start.offset, condition.extent.end.offset
        children = list(condition.get_children())
        if len(children) >= 2:
            between = self.text[children[0].extent.end.offset:children[-1].extent.start.offset].strip()
            if between in ("==", "!="):
                return  # a point of its own
        if self.is_macro(condition):
            return
        self.wrap(function, start, end, ["condition negated"], "(::posenc_mutation::is_chosen({n}) != static_cast<bool>(", "))", 0)

    def add_statement(self, statement, function):
        if not statement.kind.is_expression():
            return
        start, end = statement.extent.start.offset, statement.extent.end.offset
        text = self.text[start:end]
        if not self.text[end:].lstrip().startswith(";") or WITHOUT_RESULT.match(text) or self.is_macro(statement):
            return
        self.wrap(function, start, end, ["statement dropped"],
                  "(::posenc_mutation::is_chosen({n}) ? static_cast<void>(0) : static_cast<void>(", "))", 0)

    def add_literal(self, cursor, parent, function, start, end):
        text = self.text[start:end]
        before, after = self.text[:start].rstrip()[-1:], self.text[end:].lstrip()[:1]
        if parent is None or parent.kind in (Kind.DECL_REF_EXPR, Kind.MEMBER_REF_EXPR, Kind.CASE_STMT):
            return
        if parent.kind in DECLARATIONS and (before not in ("=", "(", "{") or start < parent.location.offset):
            return
        if parent.kind == Kind.CALL_EXPR and re.match(r"(_mm|__builtin|v\w+q_)", parent.spelling or ""):
            return
        if cursor.kind == Kind.CXX_BOOL_LITERAL_EXPR and text in ("true", "false"):
            self.wrap(function, start, end, ["negated"], "(::posenc_mutation::is_chosen({n}) != ", ")")
        elif cursor.kind == Kind.INTEGER_LITERAL and re.match(r"[0-9]", text):
            zero = re.fullmatch(r"0[uUlLzZ]*", text)
            self.wrap(function, start, end, ["plus 1"] if zero else ["plus 1", "becomes 0"],
                      "::posenc_mutation::integer({n}, ", ")")
        elif cursor.kind == Kind.FLOATING_LITERAL and re.match(r"[0-9.]", text):
            self.wrap(function, start, end, ["plus 1"] if not re.search(r"[1-9a-f]", text) else ["plus 1", "with other sign"],
                      "::posenc_mutation::real({n}, ", ")")

    def add_exchange(self, cursor, children, function):
        """Two neighbouring arguments of one type, if both are plain names; and min against max."""
        arguments = list(cursor.get_arguments())
        callee = self.text[cursor.extent.start.offset:arguments[0].extent.start.offset].strip() if arguments else ""
        if not callee.endswith("("):
            return
        callee = callee[:-1].strip()
        if callee in ("std::min", "std::max", "(std::min)", "(std::max)") and len(arguments) == 2:
            start, end = cursor.extent.start.offset, cursor.extent.end.offset
            point = self.new_point(function, start, end, ["becomes max" if "min" in callee else "becomes min"])
            if point:
                point.replaced.append((start, arguments[0].extent.start.offset, ""))
                point.opened.append((start, f"::posenc_mutation::{callee.strip('()')[5:]}({{n}}, "))
            return
        for n in range(len(arguments) - 1):
            a, b = arguments[n], arguments[n + 1]
            spans = [(x.extent.start.offset, x.extent.end.offset) for x in (a, b)]
            first, second = (self.text[s:e] for s, e in spans)
            if first == second or a.type.get_canonical().spelling != b.type.get_canonical().spelling:
                continue
            if re.search("dependent|lambda|auto", a.type.spelling) or not all(re.fullmatch(r"[a-z_]\w*((\.|->)\w+)*", t) for t in (first, second)):
                continue
            if n == 0 and COMMUTATIVE.match(callee):
                continue
            point = self.new_point(function, spans[0][0], spans[1][1], [f"arguments of {callee} exchanged"])
            if point:
                for (s, e), other in zip(spans, (second, first)):
                    point.opened.append((s, f"(::posenc_mutation::is_chosen({{n}}) ? {other} : "))
                    point.closed.append((e, ")"))


def folder_of(file):
    return file.split("/")[1]


def name_mutants(points, texts):
    """Returns (point, alternative, name) of all mutants. A name outlives changes elsewhere in the file."""
    seen = collections.Counter()
    result = []
    for point in points:
        text = " ".join(texts[point.file][slice(*point.extent)].split())
        if len(text) > 70:
            text = text[:40] + " ... " + text[-25:]
        for n, what in enumerate(point.alternatives):
            name = f"{point.file[len('posenc/'):]} {point.function}: `{text}` {what}"
            seen[name] += 1
            if seen[name] > 1:
                name += f" #{seen[name]}"
            result.append((point, n, name))
    return result


def rank(seed, name):
    return hashlib.sha1(f"{seed} {name}".encode()).hexdigest()


def instrument(text, points):
    """Returns the header's text with all alternatives of points, whose numbers are in point.number. Lines keep their numbers."""
    edits = []  # (offset, is opening, order, end, text)
    for order, point in enumerate(points):
        fill = lambda s: s.replace("{n}", str(point.number)).replace("{n1}", str(point.number + 1))
        start, end = point.extent
        for offset, inserted in point.opened:
            # The longer expression opens first.
            edits.append((offset, 1, (-end, point.rank, -order), offset, fill(inserted)))
        for offset, inserted in point.closed:
            edits.append((offset, 0, (-start, -point.rank, order), offset, fill(inserted)))
        for first, last, inserted in point.replaced:
            edits.append((first, 2, (0, 0, 0), last, inserted))
    result, at = [], 0
    for offset, _, _, end, inserted in sorted(edits):
        assert offset >= at, "points overlap"
        result += [text[at:offset], inserted]
        at = end
    result.append(text[at:])
    return "".join(result)
