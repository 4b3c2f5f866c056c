"""The body of a function: its instructions with their operands, labels, scopes and tables of targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tcemu.assembly.constants import SIGNS, constant, integer
from tcemu.assembly.declarations import SPACES, parameters, registers, variables
from tcemu.assembly.directives import directives, pragma
from tcemu.assembly.lexer import Tokens, is_name, is_number
from tcemu.assembly.lines import Lines
from tcemu.assembly.module import Function, Instruction, Prototype, Variable, width
from tcemu.assembly.operands import (
    Arguments,
    Immediate,
    Label,
    Memory,
    Minus,
    Negated,
    Operand,
    Pair,
    Parts,
    Register,
    Sink,
    Symbol,
    Vector,
)
from tcemu.assembly.scopes import Names, Scope
from tcemu.errors import did_you_mean

_ENDS = frozenset(",;]})|")
#: How a number is added to a register of a type.
_SUMS = {f"{kind}{bits}": f"add.s{bits}" for kind in "bus" for bits in (16, 32, 64)}
#: The deepest that operands may be nested, as vectors in vectors.
_DEEPEST = 16


class Body:
    """Reads a body into what a Function has of it."""

    def __init__(
        self,
        tokens: Tokens,
        lines: Lines,
        symbols: Mapping[str, Symbol],
        variables: Mapping[str, Variable],
        function: Function,
    ) -> None:
        self._tokens, self._lines, self._symbols, self._around = tokens, lines, symbols, variables
        self._names = Names(symbols)
        self._scope = Scope(self._names)
        self._constants: dict[str, Immediate] = {}
        self.function = function
        self.variables: dict[str, Variable] = {}
        self.body: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.branch_targets: dict[str, tuple[str, ...]] = {}
        self.call_targets: dict[str, tuple[str, ...]] = {}
        self.prototypes: dict[str, Prototype] = {}
        self._in_address, self._opcode = False, ""
        #: Names that may be labels further below: where in the body, which operand, its scope and its word.
        self._open: list[tuple[int, int, Scope, int]] = []
        self._tables: list[tuple[str, list[int], Scope]] = []
        for each in (*function.returns, *function.parameters):
            if each.space == "reg":
                self._scope.register(each.name, f"v{each.count}.{each.type}" if each.count > 1 else each.type)
                self._scope.lookup(each.name)
            elif each.name != "_":
                self._scope.variable(each.name)

    def read(self) -> Function:
        """Read from the brace on, up to the one that ends the body."""
        tokens, texts, depth = self._tokens, self._tokens.texts, 1
        tokens.expect("{")
        while depth:
            word = texts[tokens.at]
            if (reader := self._DIRECTIVES.get(word)) is not None:
                reader(self)
            elif word == "{":
                tokens.at += 1
                depth, self._scope = depth + 1, Scope(self._names, self._scope)
            elif word == "}":
                tokens.at += 1
                depth, self._scope = depth - 1, self._scope.outer or self._scope
            elif word == ";":
                tokens.at += 1
            elif texts[tokens.at + 1] == ":" and is_name(word):
                self._label()
            elif word == "@" or (is_name(word) and word[0] != "%"):
                self._instruction()
            else:
                raise tokens.unexpected("an instruction, a label, a declaration or '}'")
        return self._finished()

    def _finished(self) -> Function:
        for at, operand, scope, place in self._open:
            operands = list(self.body[at].operands)
            operands[operand] = Label(self._resolved(scope, place))
            self.body[at] = replace(self.body[at], operands=tuple(operands))
        for name, places, scope in self._tables:
            self.branch_targets[name] = tuple(self._resolved(scope, place) for place in places)
        return replace(
            self.function, registers=self._names.registers, variables=self.variables, body=tuple(self.body),
            labels=self.labels, branch_targets=self.branch_targets, call_targets=self.call_targets,
            prototypes=self.prototypes, defined=True,
        )  # fmt: skip

    def _resolved(self, scope: Scope, place: int) -> str:
        name = self._tokens.texts[place]
        label = scope.label(name)
        if label is None:
            raise self._undeclared(place, scope)
        return label

    def _undeclared(self, place: int, scope: Scope | None = None) -> Exception:
        name = self._tokens.texts[place]
        known = {*self._symbols, *(scope or self._scope).declared(), *self.labels}
        what = "register" if name.startswith("%") else "register, variable, function or label"
        return self._tokens.error(f"no {what} here is called {name}.{did_you_mean(name, known)}", place)

    # ---------------------------------------------------------------------------------------- declarations

    def _registers(self) -> None:
        def declare(name: str, type: str, many: int | None, at: int) -> None:  # noqa: A002 - PTX's word
            self._once(name if many is None else f"{name}0", at)
            self._scope.register(name, type, many)

        registers(self._tokens, declare)

    def _variables(self) -> None:
        at = self._tokens.at + 1
        for each in variables(self._tokens, self._symbol):
            self._once(each.name, at)
            unique = self._scope.variable(each.name)
            self.variables[unique] = replace(each, name=unique)

    def _once(self, name: str, at: int) -> None:
        if self._scope.declares(name):
            raise self._tokens.error(f"{name} is declared twice between these braces", at)

    def _symbol(self, name: str) -> Symbol | None:
        operand = self._scope.lookup(name)
        return operand if isinstance(operand, Symbol) else self._symbols.get(name)

    def _pragma(self) -> None:
        pragma(self._tokens)

    def _label(self) -> None:
        tokens, at = self._tokens, self._tokens.at
        name = tokens.texts[at]
        tokens.at += 2
        if name in self._scope.labels:
            raise tokens.error(f"the label {name} stands twice between these braces", at)
        unique = self._scope.labels[name] = self._names.unique(name)
        directive = tokens.word
        if directive == ".callprototype":
            self._prototype(unique)
        elif directive in (".branchtargets", ".calltargets"):
            self._targets(unique)
        else:
            self.labels[unique] = len(self.body)

    def _targets(self, table: str) -> None:
        tokens = self._tokens
        branches, places = tokens.next() == ".branchtargets", list[int]()
        while not places or tokens.accept(","):
            places.append(tokens.at)
            tokens.name_of("a label" if branches else "a function")
        tokens.expect(";", "after the targets")
        if branches:
            self._tables.append((table, places, self._scope))
        else:
            for place in places:
                if self._symbol(tokens.texts[place]) is None:
                    raise self._undeclared(place)
            self.call_targets[table] = tuple(tokens.texts[place] for place in places)

    def _prototype(self, name: str) -> None:
        tokens = self._tokens
        tokens.expect(".callprototype")
        returns = parameters(tokens) if tokens.word == "(" else ()
        if not tokens.accept("_"):
            tokens.name_of("a prototype, or _")
        accepted = parameters(tokens) if tokens.word == "(" else ()
        self.prototypes[name] = Prototype(accepted, returns, directives(tokens))
        tokens.expect(";", "after the prototype")

    # ---------------------------------------------------------------------------------------- instructions

    def _instruction(self) -> None:
        tokens, texts = self._tokens, self._tokens.texts
        guard, negated = None, False
        if texts[tokens.at] == "@":
            tokens.at += 1
            negated = tokens.accept("!")
            guard = self._predicate()
        at = tokens.at
        opcode = texts[at]
        if not is_name(opcode) or opcode[0] == "%":
            raise tokens.unexpected("an opcode")
        tokens.at += 1
        self._opcode = opcode
        operands: list[Operand] = []
        calls = opcode == "call" or opcode.startswith("call.")
        if texts[tokens.at] != ";":
            while True:
                operands.append(self._arguments() if calls and texts[tokens.at] == "(" else self._top(len(operands)))
                if texts[tokens.at] != ",":
                    break
                tokens.at += 1
            if texts[tokens.at] != ";":
                raise tokens.unexpected(f"',' or ';' after an operand of {opcode}")
        tokens.at += 1
        line = tokens.line_at(at)
        self.body.append(Instruction(opcode, tuple(operands), guard, negated, self._lines.line, line))

    def _predicate(self) -> Register:
        tokens, at = self._tokens, self._tokens.at
        operand = self._named(tokens.name_of("a predicate after '@'"), at)
        if not isinstance(operand, Register):
            raise tokens.error(f"the guard of an instruction is a predicate register; {tokens.texts[at]} is not", at)
        type = self._names.registers[operand.name]  # noqa: A001 - PTX's word
        if type != "pred":
            raise tokens.error(f"the guard of an instruction is a .pred register; {tokens.texts[at]} is .{type}", at)
        return operand

    def _top(self, number: int) -> Operand:
        """An operand of an instruction: a name that nothing has yet may be a label further below."""
        tokens, at = self._tokens, self._tokens.at
        word = tokens.texts[at]
        if self._is_open(word):
            tokens.at += 1
            self._open.append((len(self.body), number, self._scope, at))
            return Label(word)
        return self._operand()

    def _is_open(self, name: str) -> bool:
        """Whether nothing has this name yet."""
        if not is_name(name) or name in SIGNS:
            return False
        return name not in self._symbols and self._scope.lookup(name) is None

    def _arguments(self) -> Arguments:
        return Arguments(self._list("(", ")", 0))

    def _list(self, first: str, last: str, depth: int) -> tuple[Operand, ...]:
        tokens, items = self._tokens, list[Operand]()
        if depth == _DEEPEST:
            raise tokens.error(f"operands may be nested {_DEEPEST} deep, and these are deeper")
        tokens.expect(first)
        while not tokens.accept(last):
            if items and not tokens.accept(","):
                raise tokens.unexpected(f"',' or {last!r}")
            items.append(self._operand(depth + 1))
        return tuple(items)

    def _operand(self, depth: int = 0) -> Operand:
        tokens = self._tokens
        at = tokens.at
        word, following = tokens.texts[at], tokens.texts[at + 1]
        if (is_name(word) and word not in SIGNS) or word == "_":
            tokens.at += 1
            operand = self._named(word, at)
            if following in _ENDS and following != "|":
                return operand
            return self._continued(operand)
        if word == "[":
            return self._memory(depth)
        if word == "{":
            return Vector(self._list("{", "}", depth))
        if is_number(word) and following in _ENDS:
            return self._constant(word)
        if word == "!" and is_name(following):
            tokens.at += 1
            register = self._operand(depth)
            if not isinstance(register, Register):
                raise tokens.unexpected("a predicate after '!'", at + 1)
            return Negated(register)
        if word == "-" and is_name(following) and following not in SIGNS:
            tokens.at += 1
            register = self._operand(depth)
            if not isinstance(register, Register | Parts):
                raise tokens.unexpected("a register after '-'", at + 1)
            return Minus(register)
        if is_number(word) or word in SIGNS:
            return constant(tokens)
        raise tokens.unexpected("an operand")

    def _constant(self, word: str) -> Immediate:
        immediate = self._constants.get(word)
        if immediate is None:
            immediate = self._constants[word] = constant(self._tokens)
        else:
            self._tokens.at += 1
        return immediate

    def _named(self, name: str, at: int) -> Operand:
        operand = self._scope.lookup(name) or self._symbols.get(name)
        if operand is None:
            raise self._undeclared(at)
        return operand

    def _continued(self, first: Operand) -> Operand:
        """What may follow a name: another result after |, an offset after a variable."""
        tokens = self._tokens
        if isinstance(first, Register | Sink) and tokens.accept("|"):
            at = tokens.at
            second = self._operand()
            if not isinstance(second, Register | Sink):
                raise tokens.unexpected("a register or _ after '|'", at)
            return Pair(first, second)
        if isinstance(first, Symbol) and tokens.word in ("+", "-"):
            return Symbol(first.name, integer(tokens, "an offset"))
        if isinstance(first, Symbol) and tokens.word == "[" and not self._in_address:
            return self._element(first)
        if isinstance(first, Register) and tokens.word in ("+", "-") and not self._in_address:
            return self._sum(first)
        return first

    def _sum(self, register: Register) -> Register:
        """``%r1+1``, which the assembler takes wherever it takes a register: an addition before the instruction."""
        tokens, at = self._tokens, self._tokens.at
        type = self._names.registers[register.name]  # noqa: A001 - PTX's word
        if type not in _SUMS:
            raise tokens.error(f"nothing can be added to {register}, which is .{type}", at)
        amount = Immediate(integer(tokens, "a number to add"))
        result = Register(self._names.unique(register.name))
        self._names.registers[result.name] = type
        line = tokens.line_at(at)
        self.body.append(Instruction(_SUMS[type], (result, register, amount), None, False, self._lines.line, line))
        return result

    def _element(self, array: Symbol) -> Symbol | Memory:
        """``a[3]``: memory or, for mov, its address. The assembler counts elements of a's type in all dimensions."""
        tokens = self._tokens
        tokens.expect("[")
        if is_name(tokens.word) and tokens.word not in SIGNS:
            raise tokens.error(f"tcemu reads {array}[...] with a constant only: add the index to an address")
        index = integer(tokens, "the index of an element")
        tokens.expect("]", "after the index of an element")
        parameters = {each.name: each for each in self.function.parameters}
        variable = self.variables.get(array.name) or parameters.get(array.name) or self._around.get(array.name)
        place = Symbol(array.name, index * (width(variable.type) // 8 if variable else 1))
        return place if self._opcode.startswith("mov.") else Memory(Symbol(array.name), place.offset)

    def _memory(self, depth: int) -> Memory:
        tokens = self._tokens
        tokens.expect("[")
        at = tokens.at
        self._in_address = True
        base = self._operand(depth + 1) if depth < _DEEPEST else None
        self._in_address = False
        offset = 0
        if isinstance(base, Symbol):
            base, offset = Symbol(base.name), base.offset
        if not isinstance(base, Register | Symbol | Immediate):
            raise tokens.unexpected("an address: a register, a variable or a number", at)
        while tokens.word in ("+", "-"):
            offset += integer(tokens, "an offset")
        coordinates: list[Operand] = []
        while tokens.accept(","):
            coordinates.append(self._operand(depth + 1))
        tokens.expect("]", "after an address")
        items = coordinates[0].items if len(coordinates) == 1 and isinstance(coordinates[0], Vector) else coordinates
        return Memory(base, offset, tuple(items))

    _DIRECTIVES: Mapping[str, Callable[[Body], None]] = {
        ".reg": _registers,
        ".loc": lambda self: self._lines.loc(),
        ".file": lambda self: self._lines.file(),
        ".pragma": _pragma,
        **dict.fromkeys(SPACES, _variables),
    }
