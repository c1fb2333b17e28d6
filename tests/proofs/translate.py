# SPDX-License-Identifier: MIT
"""Reads functions of the headers as the sequence of rounded operations that they write.

The C++ that the proofs need is small: declarations, assignments, returns, counted loops, calls, struct members and the
arithmetic of packs and doubles. All other C++ raises Untranslatable, so a header that changes its form fails loudly.
"""
from __future__ import annotations

import pathlib
import re
from fractions import Fraction

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class Untranslatable(Exception):
    """The header has a form that the translator does not know."""


# Operations: a number that a function receives is a "var", one that it writes a "const". The others are rounded once each:
# add, sub, mul, div, fma. neg, min, max and the operations on bits are exact.
class Node:
    def __init__(self, op, *args):
        self.op, self.args = op, args

    def __repr__(self):
        return f"{self.op}({', '.join(map(repr, self.args))})"


def const(value):
    return Node("const", Fraction(value))


def var(name):
    return Node("var", name)


class Struct(dict):
    """An aggregate: its type, and its members by name."""

    def __init__(self, kind, members):
        super().__init__(members)
        self.kind = kind


def number(text):
    """Returns the exact value of a C++ number as the compiler reads it; the proofs use short decimals and hex floats only."""
    text = text.replace("'", "")
    if re.fullmatch(r"0x[0-9a-fA-F]+[uUlL]*", text):
        return int(text.rstrip("uUlL"), 16)
    match = re.fullmatch(r"0x([0-9a-fA-F]*)\.?([0-9a-fA-F]*)p([+-]?\d+)[fF]?", text)
    if match:
        digits = match[1] + match[2]
        return Fraction(int(digits, 16)) * Fraction(2) ** (int(match[3]) - 4 * len(match[2]))
    if re.fullmatch(r"\d+", text):
        return int(text)
    if re.fullmatch(r"\d*\.?\d*[fF]?", text):
        value = Fraction(text.rstrip("fF"))
        if value.denominator & (value.denominator - 1):
            raise Untranslatable(f"{text} is not exact in binary")
        return value
    raise Untranslatable(f"number {text}")


TOKEN = re.compile(r"""\s*(?:
    (?P<number>0x[0-9a-fA-F.]*(?:p[+-]?\d+)?[fFuUlL]*|\d+\.?\d*[fFuU]*|\.\d+[fF]?)
  | (?P<name>[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)
  | (?P<mark><=|>=|\+\+|--|\+=|&&|[-+*/&^(){}\[\],;:<>=.!?])
)""", re.X)


def tokens_of(text):
    found, at = [], 0
    text = text.strip()
    while at < len(text):
        match = TOKEN.match(text, at)
        if not match:
            raise Untranslatable(f"token at {text[at:at + 40]!r}")
        found.append(match["number"] or match["name"] or match["mark"])
        at = match.end()
    return found


class Header:
    """A header without comments, with the branch of POSENC_HAS_FMA that is wanted."""

    def __init__(self, path, fma):
        text = pathlib.Path(path).read_text()
        text = re.sub(r"//[^\n]*", "", text)
        lines, keeps = [], [True]
        for line in text.splitlines():
            word = line.strip()
            if re.match(r"#\s*if", word):
                if word != "#if POSENC_HAS_FMA":
                    raise Untranslatable(f"{path}: {word}")
                keeps.append(fma)
            elif re.match(r"#\s*else", word):
                keeps[-1] = not keeps[-1]
            elif re.match(r"#\s*endif", word):
                keeps.pop()
            elif word.startswith("#"):
                continue
            elif all(keeps):
                lines.append(line)
        self.path, self.text = path, "\n".join(lines).replace("ExpConstants<T>::", "K::")

    def close(self, opened, pair="()"):
        depth = 0
        for at in range(opened, len(self.text)):
            depth += (self.text[at] == pair[0]) - (self.text[at] == pair[1])
            if depth == 0:
                return at
        raise Untranslatable(f"{self.path}: unbalanced {pair}")

    def function(self, name, parameters=None):
        """Returns the return type, the parameters [(type, name, default)] and the body of a definition."""
        found = []
        for match in re.finditer(r"(?<![\w.:])" + re.escape(name) + r"\s*\(", self.text):
            closed = self.close(match.end() - 1)
            body = re.match(r"\s*(?:const\s*)?(?:noexcept\s*)?\{", self.text[closed + 1:])
            if not body:
                continue
            opened = closed + body.end()
            before = re.search(r"(?:^|[;}>]|\bstatic\b|\binline\b|POSENC_ALWAYS_INLINE)\s*(?:inline\s+|constexpr\s+|POSENC_ALWAYS_INLINE\s+|friend\s+|static\s+)*"
                               r"([\w:]+(?:<[\w<>:, ]*>)?)\s*$", self.text[:match.start()])
            taken = []
            for part in split_commas(self.text[match.end():closed]):
                part, _, default = part.partition("=")
                part = part.replace("const ", "").replace("&", " ").strip()
                kind, _, own = part.rpartition(" ")
                taken.append((kind.strip(), own, default.strip()))
            if parameters is None or [kind for kind, _, _ in taken] == parameters:
                found.append((before[1] if before else "", taken, self.text[opened + 1:self.close(opened, "{}")]))
        if len(found) != 1:
            raise Untranslatable(f"{self.path}: {len(found)} definitions of {name}({'' if parameters is None else parameters})")
        return found[0]

    def members(self, struct):
        """Returns the names of the members of a struct, in order."""
        match = re.search(r"struct " + struct + r"\s*\{", self.text)
        if not match:
            raise Untranslatable(f"{self.path}: no struct {struct}")
        body = self.text[match.end():self.close(match.end() - 1, "{}")]
        names = []
        for statement in body.split(";"):
            fields = re.fullmatch(r"\s*(?:P|T|double)\s+(\w+(?:\s*=\s*[\d.]+)?(?:,\s*\w+)*)\s*", statement)
            if fields:
                names += [field.split("=")[0].strip() for field in fields[1].split(",")]
        return names

    def constants(self, begin):
        """Returns the constants of the class whose definition begins with these words: a number, or a list of numbers, each."""
        at = self.text.index(begin)
        opened = self.text.index("{", at)
        body = self.text[opened + 1:self.close(opened, "{}")]
        found = {}
        for statement in body.split(";"):
            match = re.fullmatch(r"\s*static constexpr (?:float|double|int) (.*)", statement, re.S)
            if not match and statement.strip():
                raise Untranslatable(f"{self.path}: {statement.strip()}")
            for name, value in re.findall(r"(\w+)(?:\[\])?\s*=\s*(\{[^}]*\}|[^,]+)", match[1]) if match else []:
                numbers = [evaluate_constant(item) for item in value.strip("{}").split(",")]
                found[name] = numbers if value.startswith("{") else numbers[0]
        return found

    def constant(self, name):
        """Returns the numbers of a constant at namespace scope: one, or all of a braced list."""
        match = re.search(r"constexpr \w+ " + name + r"\s*(?:=\s*([^;{]+)|\{([^;]*)\});", self.text)
        if not match:
            raise Untranslatable(f"{self.path}: no constant {name}")
        numbers = [evaluate_constant(item) for item in (match[1] or match[2]).split(",")]
        return numbers[0] if match[1] else numbers


def evaluate_constant(text):
    text = text.strip()
    negative = text.startswith("-")
    value = Fraction(number(text.lstrip("-")))
    return -value if negative else value


def split_commas(text):
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "<([{") - (char in ">)]}")
        if char == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [part for part in parts + [text[start:]] if part.strip()]


class Function:
    """A lambda: parameters, body, and the variables that it sees."""

    def __init__(self, parameters, body, variables):
        self.parameters, self.body, self.variables = parameters, body, variables


class Translator:
    """Runs functions of some headers on symbols.

    fma       mul_add rounds once, else the product and the sum
    constants values of qualified names, such as K::log2_e
    structs   members of the types that functions return
    """

    def __init__(self, headers, fma, constants=None, structs=None):
        self.headers, self.fma = headers, fma
        self.constants, self.structs = constants or {}, structs or {}
        self.overrides = {}  # functions that a proof replaces: name -> function of the list of arguments
        self.named = {}  # values of the variables of the last function, for proofs that refer to them

    def call(self, name, arguments, parameters=None):
        for header in self.headers:
            try:
                kind, taken, body = header.function(name, parameters)
            except Untranslatable as error:
                if " 0 definitions" in str(error):
                    continue
                raise
            variables = {}
            for i, (_, own, default) in enumerate(taken):
                if i < len(arguments):
                    variables[own] = arguments[i]
                elif default:
                    variables[own] = Body(self, tokens_of(default), {}).expression()
                else:
                    raise Untranslatable(f"{name}: too few arguments")
            taken = [k for k, _, _ in taken]
            for own, given in zip(list(variables), taken):  # a double becomes a DoubleDouble
                if given == "DoubleDouble" and isinstance(variables[own], Node):
                    variables[own] = Struct("DoubleDouble", {"hi": variables[own], "lo": const(0)})
            result = Body(self, tokens_of(body), variables).run()
            self.named = variables
            if isinstance(result, tuple):
                kind = re.sub(r"<.*", "", kind)
                if kind not in self.structs or len(self.structs[kind]) != len(result):
                    raise Untranslatable(f"{name} returns {len(result)} values as {kind}")
                result = Struct(kind, zip(self.structs[kind], result))
            return result
        raise Untranslatable(f"function {name} {parameters or ''}")

    def operate(self, op, a, b):
        if isinstance(a, Struct) or isinstance(b, Struct):
            a, b = (x if isinstance(x, Struct) else Struct("DoubleDouble", {"hi": node(x), "lo": const(0)}) for x in (a, b))
            return self.call("operator" + op, [a, b], ["DoubleDouble", "DoubleDouble"])
        if not isinstance(a, Node) and not isinstance(b, Node):
            if op == "/":
                raise Untranslatable("division of constants")
            return {"+": a + b, "-": a - b, "*": a * b}[op]
        return Node({"+": "add", "-": "sub", "*": "mul", "/": "div"}[op], node(a), node(b))

    def mul_add(self, a, b, c):
        if self.fma:
            return Node("fma", a, b, c)
        return Node("add", Node("mul", a, b), c)

    def built_in(self, name, arguments):
        """Returns the result of an operation of packs or of the standard library, or None."""
        plain = re.sub(r"<.*", "", name)
        if plain in ("P::broadcast", "T", "P", "static_cast", "double"):
            return arguments[0] if isinstance(arguments[0], Node) else const(arguments[0])
        if plain == "mul_add":
            return self.mul_add(*map(node, arguments))
        if plain == "mul_sub":
            a, b, c = map(node, arguments)
            return Node("fma", a, b, Node("neg", c)) if self.fma else Node("sub", Node("mul", a, b), c)
        if plain == "std::fma":
            return Node("fma", *map(node, arguments))
        if plain == "std::bit_cast":
            return Node("bits", arguments[0])
        if plain == "smaller":
            return Node("min", *map(node, arguments))
        if plain == "larger":
            return Node("max", *map(node, arguments))
        if plain == "shift_left":
            return Node("shl", arguments[0], name[name.index("<") + 1:-1])
        if plain == "add_bits":
            return Node("add_bits", *arguments)
        if plain == "select_by_sign":
            return Node("select", *arguments)
        if plain == "std::size":
            return len(arguments[0])
        return None


def node(x):
    return x if isinstance(x, Node) else const(x)


TYPES = {"P", "T", "double", "float", "int", "auto", "DoubleDouble", "std::size_t", "ReducedAngle<P>", "CosSinOf<P>"}
TEMPLATES = {"shift_left", "std::bit_cast", "static_cast"}


class Body:
    """The body of a function, run on symbols."""

    def __init__(self, translator, tokens, variables):
        self.translator, self.tokens, self.variables, self.at = translator, tokens, variables, 0

    def peek(self, ahead=0):
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ""

    def take(self, expected=None):
        token = self.peek()
        if expected is not None and token != expected:
            raise Untranslatable(f"{token!r} where {expected!r} was expected, in {' '.join(self.tokens[max(self.at - 8, 0):self.at + 8])}")
        self.at += 1
        return token

    def take_if(self, token):
        if self.peek() == token:
            self.at += 1
            return True
        return False

    def run(self):
        while self.at < len(self.tokens):
            returned = self.statement()
            if returned is not None:
                return returned
        return None

    def statement(self):
        if self.take_if("return"):
            result = self.braces() if self.peek() == "{" else self.expression()
            self.take(";")
            return result
        if self.take_if("using"):
            self.take()
            self.take("=")
            while not self.take_if(";"):
                self.take()
            return None
        if self.peek() == "for":
            return self.loop()
        while self.peek() in ("const", "constexpr"):
            self.take()
        kind = self.type_here()
        if kind:
            return self.declaration(kind)
        name = self.take()
        if name not in self.variables:
            raise Untranslatable(f"statement {' '.join(self.tokens[self.at - 1:self.at + 10])}")
        if self.peek() == "[":
            raise Untranslatable("assignment to an element")
        self.take("=")
        self.variables[name] = self.expression()
        self.take(";")
        return None

    def type_here(self):
        """Consumes a type that begins a declaration, and returns it."""
        for length in (4, 1):
            text = "".join(self.tokens[self.at:self.at + length]).removeprefix("detail::")
            following = self.peek(length)
            if text in TYPES and (re.fullmatch(r"\w+", following) or (text == "auto" and following == "[")):
                self.at += length
                return text
        return None

    def declaration(self, kind):
        if self.take_if("["):
            names = [self.take()]
            while self.take_if(","):
                names.append(self.take())
            self.take("]")
            self.take("=")
            value = self.expression()
            if len(value) != len(names):
                raise Untranslatable(f"{names} of {len(value)} members")
            self.variables.update(zip(names, value.values()))
            self.take(";")
            return None
        while True:
            name = self.take()
            if self.peek() == "{":
                value = self.braces()
            else:
                self.take("=")
                value = self.function_here() if self.peek() == "[" else self.expression()
            if kind == "DoubleDouble" and not isinstance(value, Struct):
                value = Struct(kind, {"hi": node(value), "lo": const(0)} if not isinstance(value, tuple)
                               else dict(zip(("hi", "lo"), map(node, value))))
            self.variables[name] = value
            if self.take_if(";"):
                return None
            self.take(",")

    def function_here(self):
        """Reads a lambda; what it captures is all that is visible, and its own initialised captures."""
        self.take("[")
        visible = dict(self.variables)
        while not self.take_if("]"):
            name = self.take()
            if name == "&":
                continue
            if self.take_if("="):
                visible[name] = self.expression()
            self.take_if(",")
        self.take("(")
        parameters = []
        while not self.take_if(")"):
            self.take()  # its type
            parameters.append(self.take())
            self.take_if(",")
        return Function(parameters, self.block(), visible)

    def block(self):
        """Returns the tokens of a block in braces."""
        self.take("{")
        start, depth = self.at, 1
        while depth:
            token = self.take()
            depth += (token == "{") - (token == "}")
        return self.tokens[start:self.at - 1]

    def loop(self):
        self.take("for")
        self.take("(")
        if not self.type_here():
            raise Untranslatable("loop without a counter")
        name = self.take()
        self.take("=")
        count = self.expression()
        self.take(";")
        condition = self.at
        while self.take() != ";":
            pass
        step = {"++": 1, "--": -1}[self.take()]
        self.take(name)
        self.take(")")
        if self.peek() == "{":
            body = self.block()
        else:
            start = self.at
            while self.take() != ";":
                pass
            body = self.tokens[start:self.at]
        after = self.at
        while True:
            self.variables[name], self.at = count, condition
            if not self.expression():
                break
            inner = Body(self.translator, body, self.variables)
            if inner.run() is not None:
                raise Untranslatable("return within a loop")
            count += step
        self.at = after
        del self.variables[name]
        return None

    def braces(self):
        self.take("{")
        items = []
        while not self.take_if("}"):
            items.append(self.expression())
            self.take_if(",")
        return items[0] if len(items) == 1 else tuple(items)

    def expression(self):
        return self.exclusive_or()

    def exclusive_or(self):
        value = self.bitwise_and()
        while self.take_if("^"):
            value = Node("xor", node(value), node(self.bitwise_and()))
        return value

    def bitwise_and(self):
        value = self.comparison()
        while self.take_if("&"):
            value = Node("and", node(value), node(self.comparison()))
        return value

    def comparison(self):
        value = self.sum()
        if self.peek() in ("<", ">", "<=", ">="):
            op, other = self.take(), self.sum()
            if isinstance(value, Node) or isinstance(other, Node):
                raise Untranslatable("comparison of symbols")
            return {"<": value < other, ">": value > other, "<=": value <= other, ">=": value >= other}[op]
        return value

    def sum(self):
        value = self.product()
        while self.peek() in ("+", "-"):
            op = self.take()
            value = self.translator.operate(op, value, self.product())
        return value

    def product(self):
        value = self.unary()
        while self.peek() in ("*", "/"):
            op = self.take()
            value = self.translator.operate(op, value, self.unary())
        return value

    def unary(self):
        if self.take_if("-"):
            value = self.unary()
            if isinstance(value, Struct):
                return self.translator.call("operator-", [value], ["DoubleDouble"])
            if isinstance(value, Node):
                return const(-value.args[0]) if value.op == "const" and value.args[0] else Node("neg", value)
            return -value if value else Node("neg", const(0))
        return self.postfix()

    def postfix(self):
        value = self.primary()
        while True:
            if self.take_if("."):
                value = value[self.take()]
            elif self.take_if("["):
                value = value[self.expression()]
                self.take("]")
            else:
                return value

    def arguments(self, closing):
        items = []
        while not self.take_if(closing):
            items.append(self.expression())
            self.take_if(",")
        return items

    def primary(self):
        token = self.take()
        if token == "(":
            value = self.expression()
            self.take(")")
            return value
        if re.match(r"[\d.]", token):
            return number(token)
        if not re.match(r"[A-Za-z_]", token):
            raise Untranslatable(f"{token!r} in {' '.join(self.tokens[max(self.at - 8, 0):self.at + 8])}")
        name = token
        if name in TEMPLATES or (self.peek() == "<" and self.peek(2) == ">"):
            while not name.endswith(">"):
                token = self.take()
                name += str(self.variables.get(token, token))
        if self.peek() == "(" or (self.peek() == "{" and name in ("T", "DoubleDouble")):
            closing = ")" if self.take() == "(" else "}"
            given = self.arguments(closing)
            return self.result(name, given)
        if self.peek() == "::":
            raise Untranslatable(f"{name}::")
        if name in self.variables:
            return self.variables[name]
        plain = name.split("::")[-1]
        for known in (name, plain):
            if known in self.translator.constants:
                return self.translator.constants[known]
        raise Untranslatable(f"name {name}")

    def result(self, name, given):
        if name in self.variables:
            function = self.variables[name]
            inner = dict(function.variables)
            inner.update(zip(function.parameters, given))
            return Body(self.translator, list(function.body), inner).run()
        if name == "DoubleDouble":
            if len(given) == 1 and isinstance(given[0], Struct):
                return given[0]
            return Struct(name, {"hi": node(given[0]), "lo": node(given[1]) if len(given) > 1 else const(0)})
        override = self.translator.overrides.get(name.split("::")[-1])
        if override:
            return override(given)
        built_in = self.translator.built_in(name, given)
        if built_in is not None:
            return built_in
        return self.translator.call(name.split("::")[-1], given)
