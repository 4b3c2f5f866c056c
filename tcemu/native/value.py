"""A vector of a warp's lanes in the code that is being emitted: what the operators of `tcemu.alu` make of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from tcemu.native.warp import WarpCode

#: Lanes of a warp.
LANES = 32

#: LLVM's types of floats, by their bits.
FLOAT = {16: "half", 32: "float", 64: "double"}


class Value:
    """A vector of unsigned integers, or a mask (of 1 bit), in the code that is being emitted.

    Use a value only where its definition is always executed first: a bitcast is emitted where it is first needed.
    """

    __slots__ = ("_float", "_name", "bits", "code", "lanes", "number")

    def __init__(self, code: WarpCode, bits: int, name: str = "", real: str = "", lanes: int = LANES) -> None:
        self.code, self.bits, self.lanes, self._name, self._float = code, bits, lanes, name, real
        #: The number that it is, of a constant.
        self.number: int | None = None

    @property
    def type(self) -> str:
        """LLVM's type: <32 x i8>."""
        return f"<{self.lanes} x i{self.bits}>"

    @property
    def float_type(self) -> str:
        """LLVM's type of floats of this width: <32 x float>."""
        return f"<{self.lanes} x {FLOAT[self.bits]}>"

    @property
    def name(self) -> str:
        """Its name as integers: %7."""
        if not self._name:
            self._name = self.code.let(f"bitcast {self.float_type} {self._float} to {self.type}")
        return self._name

    @property
    def real(self) -> str:
        """Its name as floats."""
        if not self._float:
            self._float = self.code.let(f"bitcast {self.type} {self.name} to {self.float_type}")
        return self._float

    def __repr__(self) -> str:
        return f"{self.type} {self.name}"

    def like(self, other: Operand) -> str:
        """The name of another operand of this type, or the text of a number."""
        return other.name if isinstance(other, Value) else self.code.splat(other, self.bits)

    def do(self, operation: str, other: Operand) -> Value:
        """An operation of LLVM on two integers, such as "add"."""
        text = f"{operation} {self.type} {self.name}, {self.like(other)}"
        return Value(self.code, self.bits, self.code.let(text), lanes=self.lanes)

    def _reversed(self, operation: str, other: int) -> Value:
        text = f"{operation} {self.type} {self.like(other)}, {self.name}"
        return Value(self.code, self.bits, self.code.let(text), lanes=self.lanes)

    def compared(self, how: str, other: Operand) -> Value:
        """A mask: the lanes for which a comparison of LLVM's icmp holds, such as "ult"."""
        text = f"icmp {how} {self.type} {self.name}, {self.like(other)}"
        return Value(self.code, 1, self.code.let(text), lanes=self.lanes)

    def __add__(self, other: Operand) -> Value:
        return self.do("add", other)

    def __sub__(self, other: Operand) -> Value:
        return self.do("sub", other)

    def __mul__(self, other: Operand) -> Value:
        return self.do("mul", other)

    def __and__(self, other: Operand) -> Value:
        return self.do("and", other)

    def __or__(self, other: Operand) -> Value:
        return self.do("or", other)

    def __xor__(self, other: Operand) -> Value:
        return self.do("xor", other)

    def __lshift__(self, other: Operand) -> Value:
        return self.do("shl", other)

    def __rshift__(self, other: Operand) -> Value:
        return self.do("lshr", other)

    __radd__, __rmul__, __rand__, __ror__, __rxor__ = __add__, __mul__, __and__, __or__, __xor__

    def __rsub__(self, other: int) -> Value:
        return self._reversed("sub", other)

    def __rlshift__(self, other: int) -> Value:
        return self._reversed("shl", other)

    def __rrshift__(self, other: int) -> Value:
        return self._reversed("lshr", other)

    def __neg__(self) -> Value:
        return 0 - self

    def __invert__(self) -> Value:
        return self ^ ((1 << self.bits) - 1)

    def __eq__(self, other: object) -> Value:  # type: ignore[override]
        return self.compared("eq", other)  # type: ignore[arg-type]

    def __ne__(self, other: object) -> Value:  # type: ignore[override]
        return self.compared("ne", other)  # type: ignore[arg-type]

    __hash__ = None  # type: ignore[assignment]

    def __lt__(self, other: Operand) -> Value:
        return self.compared("ult", other)

    def __le__(self, other: Operand) -> Value:
        return self.compared("ule", other)

    def __gt__(self, other: Operand) -> Value:
        return self.compared("ugt", other)

    def __ge__(self, other: Operand) -> Value:
        return self.compared("uge", other)


#: What an operation takes: a value, or a number for all lanes.
Operand: TypeAlias = Value | int
