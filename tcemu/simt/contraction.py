"""Which multiplications and additions ptxas fuses: PTX leaves that open where neither has a rounding in its name.

`mul.f32` and `add.f32` may become one `fma.rn.f32`, which rounds once; `mul.rn.f32` may not (PTX ISA 9.7.3, Floating
Point Instructions; 9.7.4, Half Precision). Which of them do is the assembler's choice, so the bits of such a kernel are
not in its text. The rule here was read from what ptxas 13.0 makes of 200 small kernels for sm_90, and gives an H100's
bits (tests/cuda). For other releases and targets it is assumed.

A product is fused into all of its uses or into none. It is fused if every use, through `neg` and `mov`, is an addition
or subtraction without a rounding in its name, with the same .ftz, in the same basic block; in any block, if one factor
is a constant, since ptxas then multiplies where the product is used. If two products meet in one addition, the one with
fewer uses is fused, else the first; the other is then used as a number, so it is fused nowhere. Equal products are one
to ptxas, which matters where one of them cannot be fused; the rule takes the text as it is, since compilers leave none.

`div.approx` and `div.full`, of --use_fast_math and __fdividef, are products, too: of the numerator and a reciprocal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tcemu import alu
from tcemu.assembly import (
    Function,
    Immediate,
    Instruction,
    Memory,
    Minus,
    Negated,
    Operand,
    Pair,
    Parts,
    Register,
    Symbol,
    Vector,
)
from tcemu.assembly.operands import Arguments
from tcemu.errors import TableError

#: The sign bits of the types whose products are fused, and the type of their bits.
_SIGNS = {
    "f32": (0x80000000, "b32"),
    "f64": (1 << 63, "b64"),
    "f16": (0x8000, "b16"),
    "bf16": (0x8000, "b16"),
    "f16x2": (0x80008000, "b32"),
    "bf16x2": (0x80008000, "b32"),
}
_ENDS = ("bra", "brx", "ret", "exit")
#: What ptxas makes of these has branches, or ends a block all the same.
_BRANCHING = re.compile(
    r"(div|rcp|sqrt)\.r[nzmp]\.|rsqrt\.approx\.f64|(div|rem)\.([su](16|64)|s32)|membar|fence\.(?!proxy|mbarrier_init)"
)


#: The quotients that are a product with a reciprocal, and what ptxas scales them by: a comparison of the denominator's
#: size with a bound, and the factor, as bits. Without .ftz, `approx` and `full` scale what is below the second bound.
_QUOTIENT = re.compile(r"div\.(approx|full)(\.ftz)?\.f32")
_LARGE, _SMALL = ("gt", 0x7E800000, 0x3E800000), ("lt", 0x00800000, 0x4B800000)


class Fused(NamedTuple):
    """A product and an addition that became one operation: their instructions in the text.

    >>> from tcemu import assembly, simt
    >>> product, addition = assembly.Instruction("mul.f32"), assembly.Instruction("add.f32")
    >>> print(*simt.Fused(product, addition))
    mul.f32; add.f32;
    """

    product: Instruction
    addition: Instruction


class _Opcode(NamedTuple):
    """What an opcode without a rounding says."""

    head: str
    type: str
    flushed: bool
    saturated: bool


@dataclass
class _Product:
    """A product that may be fused: where it is, its factors, and the registers that hold it or its opposite."""

    at: int
    opcode: _Opcode
    factors: tuple[Operand, Operand]
    anywhere: bool  # whether its uses may be in other basic blocks
    names: dict[str, bool] = field(default_factory=dict)  # whether the register holds its opposite
    copies: set[int] = field(default_factory=set)  # the instructions that only copy or negate it
    uses: set[int] = field(default_factory=set)


def contract(function: Function) -> tuple[Function, tuple[Fused, ...]]:
    """The function with its products fused as ptxas fuses them, and which they are."""
    products = _products(function)
    if not products:
        return function, ()
    return _Rewriting(function, products).done()


def _opcode(text: str) -> _Opcode | None:
    """An opcode of mul, add or sub without a rounding; None for any other."""
    head, *words = text.split(".")
    if head not in ("mul", "add", "sub") or not words or words[-1] not in _SIGNS or set(words[:-1]) - {"ftz", "sat"}:
        return None
    return _Opcode(head, words[-1], "ftz" in words, "sat" in words)


def _quotient(text: str) -> _Opcode | None:
    """The product that a quotient ends with; None for any other opcode."""
    match = _QUOTIENT.fullmatch(text)
    return _Opcode("mul", "f32", bool(match[2]), saturated=False) if match else None


def _products(function: Function) -> list[_Product]:
    """The products that are fused into all of their uses."""
    body, block_of = function.body, _blocks(function)
    defined, used = definitions(body), uses(body)
    constant = _constants(function, defined)
    by_name: dict[str, _Product] = {}
    products = []
    for at, each in enumerate(body):
        opcode = _opcode(each.opcode) or _quotient(each.opcode)
        if opcode is None or opcode.head != "mul" or opcode.saturated or each.guard:
            continue
        target, *factors = each.operands
        if isinstance(target, Register) and defined[target.name] == 1:
            # a numerator that ptxas scales is no constant any more
            scaled = _QUOTIENT.match(each.opcode) and not each.opcode.startswith("div.approx.ftz")
            anywhere = any(_constant(each, constant) for each in factors[bool(scaled) :])
            product = _Product(at, opcode, (factors[0], factors[1]), anywhere, {target.name: False})
            if _follow(product, body, block_of, defined, used):
                products.append(product)
                by_name |= dict.fromkeys(product.names, product)
    return _chosen(products, by_name, body)


def _constants(function: Function, defined: dict[str, int]) -> set[str]:
    """The registers that hold constants: numbers, parameters of a kernel, and .const variables, also copied."""
    fixed = {each.name for each in function.parameters} if function.entry else set()
    found: set[str] = set()
    for each in function.body:
        head, *words = each.opcode.split(".")
        if each.guard or len(each.operands) != 2 or head not in ("ld", "mov", "neg"):
            continue
        target, source = each.operands
        if head == "ld" and isinstance(source, Memory) and isinstance(source.base, Symbol):
            known = "const" in words or source.base.name in fixed
        else:
            known = _constant(source, found)
        if known:
            found |= {name for name in registers_in((target,)) if defined[name] == 1}
    return found


def _constant(operand: Operand, constant: set[str]) -> bool:
    return isinstance(operand, Immediate) or (isinstance(operand, Register) and operand.name in constant)


def _follow(
    product: _Product,
    body: tuple[Instruction, ...],
    block_of: list[int],
    defined: dict[str, int],
    used: dict[str, list[int]],
) -> bool:
    """Find the uses of a product, also through copies; False if one of them cannot take it."""
    left = list(product.names)
    while left:
        name = left.pop()
        for at in used.get(name, ()):
            each = body[at]
            if at < product.at or not (product.anywhere or block_of[at] == block_of[product.at]):
                return False
            copied = _copied(each, product.opcode)
            if copied is not None:
                if defined[copied] != 1:
                    return False
                product.names[copied] = product.names[name] ^ each.opcode.startswith("neg")
                product.copies.add(at)
                left.append(copied)
                continue
            opcode = _opcode(each.opcode)
            if opcode is None or opcode.head == "mul" or opcode[1:3] != product.opcode[1:3]:
                return False
            first, second = each.operands[1:]
            if first == second:
                return False
            product.uses.add(at)
    return bool(product.uses)


def _copied(text: Instruction, product: _Opcode) -> str | None:
    """The register into which an instruction copies a product, or its opposite; None if it does something else."""
    head, *words = text.opcode.split(".")
    kinds = {"neg": (product.type,), "mov": (product.type, _SIGNS[product.type][1])}.get(head, ())
    flushed = ["ftz"] if product.flushed and head == "neg" else []
    target = text.operands[0] if text.operands else None
    if text.guard or not words or words[-1] not in kinds or words[:-1] not in ([], flushed):
        return None
    return target.name if isinstance(target, Register) else None


def _chosen(products: list[_Product], by_name: dict[str, _Product], body: tuple[Instruction, ...]) -> list[_Product]:
    """Where two products meet, only one is fused."""
    left = {product.at: product for product in products}
    for at in sorted({at for product in products for at in product.uses}):
        both = [by_name.get(each.name) for each in body[at].operands[1:] if isinstance(each, Register)]
        here = [each for each in both if each is not None and each.at in left]
        if len(here) == 2:
            first, second = here
            left.pop(first.at if len(second.uses) < len(first.uses) else second.at)
    return list(left.values())


class _Rewriting:
    """The new body, instruction by instruction."""

    def __init__(self, function: Function, products: list[_Product]) -> None:
        self.function, self.products = function, products
        self.registers = dict(function.registers)
        self.defined = definitions(function.body)
        self.by_name = {name: product for product in products for name in product.names}
        self.gone = {at for product in products for at in product.copies}
        self.by_place = {product.at: product for product in products}
        self.uses = {at for product in products for at in product.uses}
        self.fused: list[Fused] = []
        self.body: list[Instruction] = []

    def done(self) -> tuple[Function, tuple[Fused, ...]]:
        """Rewrite everything."""
        places = []
        for at, each in enumerate(self.function.body):
            places.append(len(self.body))
            if at in self.by_place:
                self._keep(self.by_place[at], each)
            elif at in self.uses:
                self._fuse(each)
            elif at not in self.gone:
                self.body.append(each)
        places.append(len(self.body))
        labels = {name: places[at] for name, at in self.function.labels.items()}
        made = replace(self.function, body=tuple(self.body), labels=labels, registers=self.registers)
        return made, tuple(self.fused)

    def _keep(self, product: _Product, text: Instruction) -> None:
        """In place of a product: copies of the factors that may have changed when it is used."""
        kept: list[Operand] = []
        if match := _QUOTIENT.match(text.opcode):
            product.factors = self._reciprocal(text, *match.groups(""))
        for factor in product.factors:
            if isinstance(factor, Register) and self.defined.get(factor.name, 0) > 1:
                kind = _SIGNS[product.opcode.type][1]
                fresh = self._fresh(kind)
                self._emit(text, f"mov.{kind}", fresh, factor)
                kept.append(fresh)
            else:
                kept.append(factor)
        product.factors = kept[0], kept[1]

    def _reciprocal(self, text: Instruction, kind: str, flushed: str) -> tuple[Operand, Operand]:
        """In place of a quotient: the numerator and the reciprocal, scaled as ptxas does it."""
        _, one, other = text.operands
        for test, bound, factor in [*([_LARGE] if kind == "full" else []), *([] if flushed else [_SMALL])]:
            size, scales = self._fresh("f32"), self._fresh("pred")
            self._emit(text, "abs.f32", size, other)
            self._emit(text, f"setp.{test}.f32", scales, size, Immediate(bound, "f32"))
            one, other = (self._scaled(text, each, factor, scales, flushed) for each in (one, other))
        reciprocal = self._fresh("f32")
        self._emit(text, "rcp.approx.ftz.f32", reciprocal, other)
        return one, reciprocal

    def _scaled(self, text: Instruction, value: Operand, factor: int, scales: Register, flushed: str) -> Register:
        product, chosen = self._fresh("f32"), self._fresh("f32")
        self._emit(text, f"mul{flushed}.f32", product, value, Immediate(factor, "f32"))
        self._emit(text, "selp.f32", chosen, product, value, scales)
        return chosen

    def _fuse(self, text: Instruction) -> None:
        """An addition becomes a multiply-add."""
        target, first, second = text.operands
        _, *words = text.opcode.split(".")
        subtracts, kind = text.opcode.startswith("sub"), words[-1]
        product, opposite = self._held(first)
        if product is None:  # it is the second operand
            product, opposite = self._held(second)
            other, opposite = first, opposite ^ subtracts
        else:
            other = self._opposite(text, second, kind) if subtracts else second
        if product is None:
            raise TableError(f"no product is used by {text}")
        one, two = product.factors
        if opposite:
            one = self._opposite(text, one, kind)
        self.body.append(replace(text, opcode=".".join(["fma.rn", *words]), operands=(target, one, two, other)))
        self.fused.append(Fused(self.function.body[product.at], text))

    def _held(self, operand: Operand) -> tuple[_Product | None, bool]:
        """The product that an operand holds, and whether it holds its opposite."""
        product = self.by_name.get(operand.name) if isinstance(operand, Register) else None
        return (product, product.names[operand.name]) if product and isinstance(operand, Register) else (None, False)

    def _opposite(self, text: Instruction, value: Operand, kind: str) -> Operand:
        """A number with the other sign."""
        sign, bits = _SIGNS[kind]
        if isinstance(value, Immediate) and value.kind != "int":
            return replace(value, value=value.value ^ (1 << 31 if value.kind == "f32" else 1 << 63))
        fresh = self._fresh(bits)
        self._emit(text, f"xor.{bits}", fresh, value, Immediate(sign))
        return fresh

    def _fresh(self, kind: str) -> Register:
        name = f"%contracted{len(self.registers)}"
        self.registers[name] = kind
        return Register(name)

    def _emit(self, text: Instruction, opcode: str, *operands: Operand) -> None:
        self.body.append(replace(text, opcode=opcode, operands=operands, guard=None, negated=False))


def _blocks(function: Function) -> list[int]:
    """The number of the basic block of each instruction, as ptxas has them: what it makes of one may have branches."""
    starts = set(function.labels.values())
    starts |= {at + 1 for at, each in enumerate(function.body) if _ends(each)}
    first_numbers, number = [], 0
    for at in range(len(function.body)):
        number += at in starts
        first_numbers.append(number)
    return first_numbers


def _ends(text: Instruction) -> bool:
    """Whether a basic block ends behind an instruction."""
    head = text.opcode.partition(".")[0]
    if text.guard and head != "mov" and alu.find(text.opcode) is None:
        return True  # a branch around it
    return head in _ENDS or bool(_BRANCHING.match(text.opcode))


def definitions(body: tuple[Instruction, ...]) -> dict[str, int]:
    """How many instructions write each register: it is, or is in, their first operand."""
    counts: dict[str, int] = {}
    for each in body:
        if not isinstance(next(iter(each.operands), None), Memory):
            for name in registers_in(each.operands[:1]):
                counts[name] = counts.get(name, 0) + 1
    return counts


def uses(body: tuple[Instruction, ...]) -> dict[str, list[int]]:
    """The instructions that have each register among their other operands, or in the address of a store."""
    uses: dict[str, list[int]] = {}
    for at, each in enumerate(body):
        written = each.operands and not isinstance(each.operands[0], Memory) and not each.opcode.startswith("call")
        for name in registers_in(each.operands[1:] if written else each.operands):
            uses.setdefault(name, []).append(at)
    return uses


def registers_in(operands: tuple[Operand, ...]) -> Iterator[str]:
    """The registers of operands, also those in vectors and addresses."""
    for each in operands:
        if isinstance(each, Register):
            yield each.name
        elif isinstance(each, Negated | Parts):
            yield each.register.name
        elif isinstance(each, Minus):
            yield from registers_in((each.of,))
        elif isinstance(each, Vector | Arguments):
            yield from registers_in(each.items)
        elif isinstance(each, Pair):
            yield from registers_in((each.first, each.second))
        elif isinstance(each, Memory):
            yield from registers_in((each.base, *each.coordinates))
