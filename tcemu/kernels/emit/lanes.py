"""Vectors of 16 words as Python values, for kernels that are vectorised by hand instead of by the compiler.

A kernel of this kind is an intrinsic: its Python code runs once, while numba compiles it, and every operation on
`Lanes` emits the operation on vectors. LLVM splits the vectors if the processor has only shorter ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba.core import cgutils, config

#: Lanes of a vector of words.
WIDTH = 16

BYTE, WORD, LONG, REAL, DOUBLE = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.FloatType(), ir.DoubleType()
SHORT, HALF = ir.IntType(16), ir.HalfType()

BYTES, WORDS, REALS = ir.VectorType(BYTE, 4 * WIDTH), ir.VectorType(WORD, WIDTH), ir.VectorType(REAL, WIDTH)
HALVES, SHORTS = ir.VectorType(HALF, WIDTH), ir.VectorType(SHORT, 2 * WIDTH)
DOUBLES, LONGS = ir.VectorType(DOUBLE, WIDTH), ir.VectorType(LONG, WIDTH)
#: The sign of a float32, as a signed word.
SIGN = -(1 << 31)
#: AVX-512's numbers for roundings without exceptions.
_TO_NEAREST, DOWN, UP, TOWARD_ZERO = 8, 9, 10, 11


def vector_of(kind: Any, count: int) -> Any:
    """The type of vectors of another length."""
    return ir.VectorType(kind, count)


@cache
def _features() -> dict[str, bool]:
    """The features of the processor for which numba compiles: this one's, or those that NUMBA_CPU_FEATURES lists."""
    if config.CPU_NAME is None and config.CPU_FEATURES is None:
        return dict(get_host_cpu_features())
    features = (config.CPU_FEATURES or "").split(",")
    return {name[1:]: name.startswith("+") for name in features}


@cache
def whole_vectors_of_words() -> bool:
    """Whether the processor gathers and permutes 16 words, and 64 bytes, at once: AVX-512."""
    return all(_features().get(name) for name in ("avx512f", "avx512bw"))


@cache
def permutes_words() -> bool:
    """Whether the processor permutes 16 words, at once or in halves: AVX-512 or AVX2."""
    return whole_vectors_of_words() or bool(_features().get("avx2"))


class Lanes:
    """A vector (or one number) in the code that is being emitted. The operation says whether integers are signed."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder, self.value = builder, value

    # ------------------------------------------------------------------------------------------------ what it is

    @property
    def type(self) -> Any:
        """LLVM's type."""
        return self.value.type

    @property
    def real(self) -> bool:
        """Whether it holds floats."""
        return getattr(self.type, "element", self.type) in (HALF, REAL, DOUBLE)

    def like(self, other: Any) -> Any:
        """Another operand as an LLVM value: a plain number is repeated in every lane."""
        if isinstance(other, Lanes):
            return other.value
        count = getattr(self.type, "count", None)
        return ir.Constant(self.type, other if count is None else [other] * count)

    def _do(self, name: str, *others: Any) -> Lanes:
        return Lanes(self.builder, getattr(self.builder, name)(self.value, *(self.like(each) for each in others)))

    # ------------------------------------------------------------------------------------------------ arithmetic

    def __add__(self, other: Any) -> Lanes:
        return self._do("fadd" if self.real else "add", other)

    def __sub__(self, other: Any) -> Lanes:
        return self._do("fsub" if self.real else "sub", other)

    def __neg__(self) -> Lanes:
        return Lanes(self.builder, self.builder.fneg(self.value) if self.real else self.builder.neg(self.value))

    def __mul__(self, other: Any) -> Lanes:
        return self._do("fmul" if self.real else "mul", other)

    def times_plus(self, other: Lanes, addend: Lanes) -> Lanes:
        """The floats times others plus an addend, rounded once."""
        return self._by_llvm("fma", other, addend)

    def exactly_times_plus(self, other: Lanes, addend: Lanes) -> Lanes:
        """The same where no rounding happens: in one operation if the processor has it, else in two."""
        return self._by_llvm("fmuladd", other, addend)

    def ones(self) -> Lanes:
        """The number of ones in each integer."""
        return self._by_llvm("ctpop")

    def whole(self) -> Lanes:
        """Floats cut off to whole numbers, toward zero."""
        return self._by_llvm("trunc")

    def _by_llvm(self, name: str, *others: Lanes) -> Lanes:
        """One of LLVM's own functions on vectors."""
        element = {REAL: "f32", DOUBLE: "f64", WORD: "i32"}[self.type.element]
        return called(self.builder, f"llvm.{name}.v{self.type.count}{element}", self.type, [self, *others])

    def __and__(self, other: Any) -> Lanes:
        return self._do("and_", other)

    def __or__(self, other: Any) -> Lanes:
        return self._do("or_", other)

    def __xor__(self, other: Any) -> Lanes:
        return self._do("xor", other)

    def __invert__(self) -> Lanes:
        return self ^ -1

    def up(self, places: Any) -> Lanes:
        """Shifted left."""
        return self._do("shl", places)

    def down(self, places: Any) -> Lanes:
        """Shifted right, filled with zeros."""
        return self._do("lshr", places)

    def signed_down(self, places: Any) -> Lanes:
        """Shifted right, filled with the sign."""
        return self._do("ashr", places)

    def sign(self) -> Lanes:
        """-1 where the integer is negative, else 0."""
        return self._do("ashr", self.type.element.width - 1)

    # ------------------------------------------------------------------------------------------------ comparing

    def compare(self, word: str, other: Any, *, unordered: bool = False, unsigned: bool = False) -> Lanes:
        """A mask: "<", ">=", "==" ... of signed integers or of floats; with `unordered`, it is true for NaN."""
        reals = "fcmp_unordered" if unordered else "fcmp_ordered"
        name = reals if self.real else "icmp_unsigned" if unsigned else "icmp_signed"
        return Lanes(self.builder, getattr(self.builder, name)(word, self.value, self.like(other)))

    def choose(self, yes: Lanes, no: Any) -> Lanes:
        """For a mask: `yes` where it is set, else `no`."""
        return Lanes(self.builder, self.builder.select(self.value, yes.value, yes.like(no)))

    def both(self, other: Lanes) -> Lanes:
        """For two masks: where both are set."""
        return self & other

    def either(self, other: Lanes) -> Lanes:
        """For two masks: where either is set."""
        return self | other

    def neither(self, other: Lanes) -> Lanes:
        """For two masks: where neither is set."""
        return (self | other) ^ 1

    def but_not(self, other: Lanes) -> Lanes:
        """For two masks: where this one is set and the other is not."""
        return self & (other ^ 1)

    def larger(self, other: Any, *, unsigned: bool = False) -> Lanes:
        """The larger of two integers."""
        return self.compare(">", other, unsigned=unsigned).choose(self, other)

    def smaller(self, other: Any, *, unsigned: bool = False) -> Lanes:
        """The smaller of two integers."""
        return self.compare("<", other, unsigned=unsigned).choose(self, other)

    # ------------------------------------------------------------------------------------------------ converting

    def bits(self) -> Lanes:
        """The patterns of floats."""
        return self.seen_as(ir.VectorType(WORD, self.type.count))

    def floats(self) -> Lanes:
        """The floats of patterns."""
        return self.seen_as(ir.VectorType(REAL, self.type.count))

    def seen_as(self, kind: Any) -> Lanes:
        """The same bits as another type."""
        return Lanes(self.builder, self.builder.bitcast(self.value, kind))

    def bytes(self) -> Lanes:
        """The low 8 bits of each."""
        return Lanes(self.builder, self.builder.trunc(self.value, ir.VectorType(BYTE, self.type.count)))

    def shorts(self) -> Lanes:
        """The low 16 bits of each."""
        return Lanes(self.builder, self.builder.trunc(self.value, ir.VectorType(SHORT, self.type.count)))

    def truncated(self) -> Lanes:
        """Floats as integers, toward zero."""
        return Lanes(self.builder, self.builder.fptosi(self.value, ir.VectorType(WORD, self.type.count)))

    def converted(self) -> Lanes:
        """Integers as floats, to nearest."""
        return Lanes(self.builder, self.builder.sitofp(self.value, ir.VectorType(REAL, self.type.count)))

    def converted_toward_zero(self) -> Lanes:
        """Integers as floats, toward zero. AVX-512 only: the rounding is a part of the instruction there."""
        operands = [self, ir.Constant(WORD, TOWARD_ZERO)]
        return called(self.builder, "llvm.x86.avx512.sitofp.round.v16f32.v16i32", REALS, operands)

    def plus_toward_zero(self, other: Lanes) -> Lanes:
        """The sum of floats, toward zero. AVX-512 only, as `converted_toward_zero`."""
        operands = [self, other, ir.Constant(WORD, TOWARD_ZERO)]
        return called(self.builder, "llvm.x86.avx512.add.ps.512", REALS, operands)

    def times_power(self, exponents: Lanes) -> Lanes:
        """Floats times 2^exponents, integers of any size, to nearest. AVX-512 only, as `converted_toward_zero`.

        A subnormal number before or after takes some processors a hundred times as long.
        """
        operands = [self, exponents.converted(), ir.Constant(REALS, ir.Undefined), ir.Constant(SHORT, -1)]
        operands.append(ir.Constant(WORD, _TO_NEAREST))
        return called(self.builder, "llvm.x86.avx512.mask.scalef.ps.512", REALS, operands)

    def converted_unsigned(self) -> Lanes:
        """Unsigned integers as floats, to nearest."""
        return Lanes(self.builder, self.builder.uitofp(self.value, ir.VectorType(REAL, self.type.count)))

    def _to(self, name: str, kind: Any) -> Lanes:
        return Lanes(self.builder, getattr(self.builder, name)(self.value, ir.VectorType(kind, self.type.count)))

    def as_doubles(self) -> Lanes:
        """Floats or integers as float64, exactly."""
        return self._to("fpext" if self.real else "sitofp", DOUBLE)

    def as_wide_reals(self) -> Lanes:
        """Float16 as float32, exactly."""
        return self._to("fpext", REAL)

    def as_halves(self) -> Lanes:
        """Float32 as float16, to nearest even."""
        return self._to("fptrunc", HALF)

    def as_reals(self) -> Lanes:
        """Float64 as float32, to nearest."""
        return self._to("fptrunc", REAL)

    def widened(self) -> Lanes:
        """Signed words in 64 bits."""
        return self._to("sext", LONG)

    def size(self) -> Lanes:
        """Floats without their sign."""
        return (self.bits() & 0x7FFFFFFF).floats()

    # ------------------------------------------------------------------------------------------------ spreading

    def everywhere(self, count: int = WIDTH) -> Lanes:
        """One number in all of so many lanes, or a short vector again and again."""
        if isinstance(self.type, ir.VectorType):
            return self.shuffled([lane % self.type.count for lane in range(count)])
        b, kind = self.builder, ir.VectorType(self.type, count)
        one = b.insert_element(ir.Constant(kind, ir.Undefined), self.value, ir.Constant(WORD, 0))
        mask = ir.Constant(ir.VectorType(WORD, count), [0] * count)
        return Lanes(b, b.shuffle_vector(one, ir.Constant(kind, ir.Undefined), mask))

    def shuffled(self, lanes: list[int]) -> Lanes:
        """The lanes with these numbers, in this order."""
        return self.joined(self, lanes)

    def joined(self, other: Lanes, lanes: list[int]) -> Lanes:
        """The lanes with these numbers, in this order; those of another vector come after its own."""
        mask = ir.Constant(ir.VectorType(WORD, len(lanes)), lanes)
        return Lanes(self.builder, self.builder.shuffle_vector(self.value, other.value, mask))


def called(builder: Any, name: str, result: Any, operands: Sequence[Any]) -> Lanes:
    """The result of a function of LLVM or of the processor, for vectors or LLVM's values."""
    values = [each.value if isinstance(each, Lanes) else each for each in operands]
    kind = ir.FunctionType(result, [value.type for value in values])
    return Lanes(builder, builder.call(cgutils.get_or_insert_function(builder.module, kind, name), values))
