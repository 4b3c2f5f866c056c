"""LLVM text for the 32 lanes of a warp: the native backend of the meanings of `tcemu.alu`.

A value is a vector of integers, whose operators emit code. Floats are values too: operations such as `WarpCode.fadd`
read an integer's bits as a float. A meaning that is written with these operators and methods runs unchanged on arrays
of numpy (`tcemu.alu.arrays`), which have the same operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tcemu.native.value import FLOAT, LANES, Operand, Value

__all__ = ["LANES", "Operand", "Value", "WarpCode"]


class WarpCode:
    """The body of a function that is being emitted: its lines, what it declares, and its tables."""

    def __init__(self, prefix: str = "%v") -> None:
        self.lines: list[str] = []
        #: LLVM's functions that the code calls, and constant tables: lines for the module.
        self.declarations: dict[str, str] = {}
        self._prefix, self._count = prefix, 0
        #: Bits of the results of the functions of `once`.
        self._results: dict[str, int] = {}

    # ------------------------------------------------------------------------------------------------ text

    def emit(self, text: str) -> None:
        """Add a line."""
        self.lines.append(f"  {text}")

    def let(self, text: str) -> str:
        """Add a line that computes something; its name."""
        self._count += 1
        name = f"{self._prefix}{self._count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def splat(self, value: int, bits: int) -> str:
        """The text of a number for all lanes, without its type."""
        value &= (1 << bits) - 1
        if not value:
            return "zeroinitializer"
        return f"splat (i{bits} {value})" if bits > 1 else "splat (i1 true)"

    def value(self, name: str, bits: int, lanes: int = LANES) -> Value:
        """A vector of integers, or with 1 bit a mask, of which LLVM knows the name."""
        return Value(self, bits, name, lanes=lanes)

    def constant(self, value: int, bits: int) -> Value:
        """A number for all lanes."""
        constant = Value(self, bits, self.splat(value, bits))
        constant.number = value & ((1 << bits) - 1)
        return constant

    def number(self, x: Value) -> int | None:
        """The number that a constant is; None of other values."""
        return x.number

    def intrinsic(self, name: str, result: str, *arguments: tuple[str, str]) -> str:
        """Call one of LLVM's functions with pairs of type and name; the name of its result."""
        types = ", ".join(kind for kind, _ in arguments)
        self.declarations[f"@{name}"] = f"declare {result} @{name}({types})"
        return self.let(f"call {result} @{name}({', '.join(f'{kind} {each}' for kind, each in arguments)})")

    # ------------------------------------------------------------------------------------------------ integers

    def select(self, mask: Value, yes: Operand, no: Operand, bits: int = 0) -> Value:
        """One or the other, lane by lane; `bits` is their width if both are numbers."""
        like = yes if isinstance(yes, Value) else no if isinstance(no, Value) else None
        bits = like.bits if like is not None else bits
        kind = f"<{mask.lanes} x i{bits}>"
        one, other = (each.name if isinstance(each, Value) else self.splat(each, bits) for each in (yes, no))
        text = f"select {mask.type} {mask.name}, {kind} {one}, {kind} {other}"
        return Value(self, bits, self.let(text), lanes=mask.lanes)

    def _resized(self, how: str, x: Value, bits: int) -> Value:
        if bits == x.bits:
            return x
        name = self.let(f"{how if bits > x.bits else 'trunc'} {x.type} {x.name} to <{x.lanes} x i{bits}>")
        return Value(self, bits, name, lanes=x.lanes)

    def unsigned(self, x: Value, bits: int) -> Value:
        """Widened with zeros, or the low bits. A mask becomes 0 and 1."""
        return self._resized("zext", x, bits)

    def signed(self, x: Value, bits: int) -> Value:
        """Widened with copies of the sign, or the low bits. A mask becomes 0 and -1."""
        return self._resized("sext", x, bits)

    def less(self, x: Value, y: Operand) -> Value:
        """Whether signed x < y."""
        return x.compared("slt", y)

    def less_equal(self, x: Value, y: Operand) -> Value:
        """Whether signed x <= y."""
        return x.compared("sle", y)

    def shift_signed(self, x: Value, amount: Operand) -> Value:
        """Shifted right by less than its width, filled with copies of the sign."""
        return x.do("ashr", amount)

    def divide(self, x: Value, y: Operand) -> Value:
        """The unsigned quotient by what is 0 in no lane."""
        if x.bits > 32:
            return x.do("udiv", y)
        # Floats of 64 bits have vector instructions; their quotient of 32-bit integers never rounds up to the next one.
        divisor = y if isinstance(y, Value) else self.constant(y, x.bits)
        quotient = self.fdiv(self.from_unsigned(x, 64), self.from_unsigned(divisor, 64))
        return Value(self, x.bits, self.let(f"fptoui {quotient.float_type} {quotient.real} to {x.type}"), lanes=x.lanes)

    def remainder(self, x: Value, y: Operand) -> Value:
        """The unsigned remainder by what is 0 in no lane."""
        return x.do("urem", y) if x.bits > 32 else x - self.divide(x, y) * y

    def _called(self, name: str, x: Value, *others: Operand, flags: Sequence[str] = ()) -> Value:
        arguments = [(x.type, x.name), *((x.type, x.like(each)) for each in others), *(("i1", flag) for flag in flags)]
        result = self.intrinsic(f"llvm.{name}.v{x.lanes}i{x.bits}", x.type, *arguments)
        return Value(self, x.bits, result, lanes=x.lanes)

    def ones(self, x: Value) -> Value:
        """How many bits are set."""
        return self._called("ctpop", x)

    def leading_zeros(self, x: Value) -> Value:
        """How many zeros precede the first one: all bits for 0."""
        return self._called("ctlz", x, flags=["false"])

    def bits_reversed(self, x: Value) -> Value:
        """The bits from the last to the first."""
        return self._called("bitreverse", x)

    def smaller(self, x: Value, y: Operand) -> Value:
        """The unsigned minimum."""
        return self._called("umin", x, y)

    def larger(self, x: Value, y: Operand) -> Value:
        """The unsigned maximum."""
        return self._called("umax", x, y)

    def smaller_signed(self, x: Value, y: Operand) -> Value:
        """The signed minimum."""
        return self._called("smin", x, y)

    def larger_signed(self, x: Value, y: Operand) -> Value:
        """The signed maximum."""
        return self._called("smax", x, y)

    def high_product(self, x: Value, y: Value) -> Value:
        """The high half of the unsigned product."""
        return self._high(x, y, self.unsigned)

    def high_product_signed(self, x: Value, y: Value) -> Value:
        """The high half of the signed product."""
        return self._high(x, y, self.signed)

    def _high(self, x: Value, y: Value, widen: Callable[[Value, int], Value]) -> Value:
        product = widen(x, 2 * x.bits) * widen(y, 2 * x.bits)
        return self.unsigned(product >> x.bits, x.bits)

    def parts(self, x: Value, bits: int) -> Value:
        """Every lane as several of fewer bits, the low ones first."""
        lanes = x.lanes * x.bits // bits
        name = self.let(f"bitcast {x.type} {x.name} to <{lanes} x i{bits}>")
        return Value(self, bits, name, lanes=lanes)

    def joined(self, x: Value, bits: int) -> Value:
        """Several lanes as one of more bits: `parts` undone."""
        return self.parts(x, bits)

    def table(self, x: Value, name: str, entries: Sequence[int], bits: int) -> Value:
        """The entry at each lane's index, of a table of this name, whose width is `bits`."""
        kind = f"[{len(entries)} x i{bits}]"
        text = ", ".join(f"i{bits} {each}" for each in entries)
        self.declarations[f"@{name}"] = f"@{name} = private unnamed_addr constant {kind} [{text}], align 64"
        places = self.let(f"getelementptr i{bits}, ptr @{name}, {x.type} {x.name}")
        kind, pointers = f"<{x.lanes} x i{bits}>", f"<{x.lanes} x ptr>"
        masks = (f"<{x.lanes} x i1>", "splat (i1 true)")
        arguments = [(pointers, places), ("i32", str(bits // 8)), masks, (kind, "poison")]
        gathered = self.intrinsic(f"llvm.masked.gather.v{x.lanes}i{bits}.v{x.lanes}p0", kind, *arguments)
        return Value(self, bits, gathered, lanes=x.lanes)

    def once(self, name: str, compute: Callable[[WarpCode, Value], Value], x: Value) -> Value:
        """What is computed of a value by a function of this name, whose code is emitted once for all its calls."""
        symbol = f"@{name}.{x.lanes}"
        if symbol not in self.declarations:
            inner = WarpCode()
            value = compute(inner, inner.value("%x", x.bits, x.lanes))
            result = f"  ret {value.type} {value.name}"
            lines = [f"define internal {value.type} {symbol}({x.type} %x) {{", *inner.lines, result, "}"]
            self.declarations |= {**inner.declarations, symbol: "\n".join(lines)}
            self._results[symbol] = value.bits
        bits = self._results[symbol]
        name = self.let(f"call <{x.lanes} x i{bits}> {symbol}({x.type} {x.name})")
        return Value(self, bits, name, lanes=x.lanes)

    # ------------------------------------------------------------------------------------------------ floats

    def _real_operand(self, like: Value, x: Operand) -> str:
        if isinstance(x, Value):
            return x.real
        return f"bitcast ({like.type} {self.splat(x, like.bits)} to {like.float_type})"

    def _real(self, operation: str, x: Value, y: Operand) -> Value:
        text = f"{operation} {x.float_type} {x.real}, {self._real_operand(x, y)}"
        return Value(self, x.bits, real=self.let(text), lanes=x.lanes)

    def fadd(self, x: Value, y: Operand) -> Value:
        """The sum of floats of 32 or 64 bits, rounded to nearest. Which NaN is open, here and below."""
        return self._real("fadd", x, y)

    def fsub(self, x: Value, y: Operand) -> Value:
        """The difference."""
        return self._real("fsub", x, y)

    def fmul(self, x: Value, y: Operand) -> Value:
        """The product."""
        return self._real("fmul", x, y)

    def fdiv(self, x: Value, y: Operand) -> Value:
        """The quotient."""
        return self._real("fdiv", x, y)

    def _real_called(self, name: str, x: Value, *others: Operand) -> Value:
        kind = f"v{x.lanes}f{x.bits}"
        given = [(x.float_type, x.real), *((x.float_type, self._real_operand(x, each)) for each in others)]
        return Value(self, x.bits, real=self.intrinsic(f"llvm.{name}.{kind}", x.float_type, *given), lanes=x.lanes)

    def fma(self, x: Value, y: Operand, z: Operand) -> Value:
        """The product plus z, rounded once."""
        return self._real_called("fma", x, y, z)

    def fsqrt(self, x: Value) -> Value:
        """The square root."""
        return self._real_called("sqrt", x)

    def fround(self, x: Value, how: str) -> Value:
        """A whole number: "roundeven", "trunc", "floor" or "ceil"."""
        return self._real_called(how, x)

    def fcompare(self, how: str, x: Value, y: Operand) -> Value:
        """A mask, by PTX's comparisons: "lt" is false for NaNs, "ltu" is true; "num" and "nan" look for them."""
        word = {"num": "ord", "nan": "uno"}.get(how, f"u{how[:2]}" if how[2:] else f"o{how}")
        text = f"fcmp {word} {x.float_type} {x.real}, {self._real_operand(x, y)}"
        return Value(self, 1, self.let(text), lanes=x.lanes)

    def _converted(self, how: str, x: Value, bits: int) -> Value:
        kind = f"<{x.lanes} x {FLOAT[bits]}>"
        return Value(self, bits, real=self.let(f"{how} {x.float_type} {x.real} to {kind}"), lanes=x.lanes)

    def fwiden(self, x: Value, bits: int) -> Value:
        """A float of 16 or 32 bits as one of 32 or 64; not from 16 to 64."""
        return self._converted("fpext", x, bits)

    def fnarrow(self, x: Value, bits: int) -> Value:
        """A float of 64 or 32 bits as one of 32 or 16, rounded to nearest; not from 64 to 16."""
        return self._converted("fptrunc", x, bits)

    def from_signed(self, x: Value, bits: int) -> Value:
        """A signed integer as a float of 32 or 64 bits, rounded to nearest."""
        return self._from("sitofp", x, bits)

    def from_unsigned(self, x: Value, bits: int) -> Value:
        """An unsigned integer as a float of 32 or 64 bits, rounded to nearest."""
        return self._from("uitofp", x, bits)

    def _from(self, how: str, x: Value, bits: int) -> Value:
        text = f"{how} {x.type} {x.name} to <{x.lanes} x {FLOAT[bits]}>"
        return Value(self, bits, real=self.let(text), lanes=x.lanes)

    def to_signed(self, x: Value, bits: int) -> Value:
        """A float as a signed integer, toward zero: the nearest one that there is; 0 for a NaN."""
        return self._to("s", x, bits)

    def to_unsigned(self, x: Value, bits: int) -> Value:
        """A float as an unsigned integer, toward zero: the nearest one that there is; 0 for a NaN."""
        return self._to("u", x, bits)

    def _to(self, sign: str, x: Value, bits: int) -> Value:
        kind = f"<{x.lanes} x i{bits}>"
        name = f"llvm.fpto{sign}i.sat.v{x.lanes}i{bits}.v{x.lanes}f{x.bits}"
        return Value(self, bits, self.intrinsic(name, kind, (x.float_type, x.real)), lanes=x.lanes)
