"""Vectors of 16 words as Python values, for kernels that are vectorised by hand instead of by the compiler.

A kernel of this kind is an intrinsic: its Python code runs once, while numba compiles it, and every operation on
`Lanes` emits the operation on vectors. LLVM splits the vectors if the processor has only shorter ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba.core import cgutils, config

#: Lanes of a vector of words.
WIDTH = 16

BYTE, WORD, LONG, REAL, DOUBLE = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.FloatType(), ir.DoubleType()

BYTES, WORDS, REALS = ir.VectorType(BYTE, 4 * WIDTH), ir.VectorType(WORD, WIDTH), ir.VectorType(REAL, WIDTH)
#: The sign of a float32, as a signed word.
SIGN = -(1 << 31)
#: AVX-512's number for the rounding toward zero, without exceptions.
TOWARD_ZERO = 11


@cache
def whole_vectors_of_words() -> bool:
    """Whether numba compiles for this processor, and the processor gathers and permutes 16 words at once."""
    told = config.CPU_NAME is not None or config.CPU_FEATURES is not None
    return not told and bool(get_host_cpu_features().get("avx512f"))


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
        return getattr(self.type, "element", self.type) in (REAL, DOUBLE)

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

    def truncated(self) -> Lanes:
        """Floats as integers, toward zero."""
        return Lanes(self.builder, self.builder.fptosi(self.value, ir.VectorType(WORD, self.type.count)))

    def converted(self) -> Lanes:
        """Integers as floats, to nearest."""
        return Lanes(self.builder, self.builder.sitofp(self.value, ir.VectorType(REAL, self.type.count)))

    def converted_toward_zero(self) -> Lanes:
        """Integers as floats, toward zero. AVX-512 only: the rounding is a part of the instruction there."""
        given = [self, ir.Constant(WORD, TOWARD_ZERO)]
        return called(self.builder, "llvm.x86.avx512.sitofp.round.v16f32.v16i32", REALS, given)

    def plus_toward_zero(self, other: Lanes) -> Lanes:
        """The sum of floats, toward zero. AVX-512 only, as `converted_toward_zero`."""
        given = [self, other, ir.Constant(WORD, TOWARD_ZERO)]
        return called(self.builder, "llvm.x86.avx512.add.ps.512", REALS, given)

    def converted_unsigned(self) -> Lanes:
        """Unsigned integers as floats, to nearest."""
        return Lanes(self.builder, self.builder.uitofp(self.value, ir.VectorType(REAL, self.type.count)))

    def _to(self, name: str, kind: Any) -> Lanes:
        return Lanes(self.builder, getattr(self.builder, name)(self.value, ir.VectorType(kind, self.type.count)))

    def as_doubles(self) -> Lanes:
        """Floats or integers as float64, exactly."""
        return self._to("fpext" if self.real else "sitofp", DOUBLE)

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
        """One number in all lanes."""
        b, kind = self.builder, ir.VectorType(self.type, count)
        one = b.insert_element(ir.Constant(kind, ir.Undefined), self.value, ir.Constant(WORD, 0))
        mask = ir.Constant(ir.VectorType(WORD, count), [0] * count)
        return Lanes(b, b.shuffle_vector(one, ir.Constant(kind, ir.Undefined), mask))

    def shuffled(self, lanes: list[int]) -> Lanes:
        """The lanes with these numbers, in this order."""
        mask = ir.Constant(ir.VectorType(WORD, len(lanes)), lanes)
        return Lanes(self.builder, self.builder.shuffle_vector(self.value, self.value, mask))


def called(builder: Any, name: str, result: Any, given: Sequence[Any]) -> Lanes:
    """The result of a function of LLVM or of the processor, for vectors or LLVM's values."""
    values = [each.value if isinstance(each, Lanes) else each for each in given]
    kind = ir.FunctionType(result, [value.type for value in values])
    return Lanes(builder, builder.call(cgutils.get_or_insert_function(builder.module, kind, name), values))


class Slot:
    """A variable, for vectors that change in a loop."""

    def __init__(self, start: Lanes) -> None:
        self._builder = start.builder
        self._place = cgutils.alloca_once(start.builder, start.type)
        self.set(start)

    def set(self, value: Lanes) -> None:
        """Give it another value."""
        self._builder.store(value.value, self._place)

    def get(self) -> Lanes:
        """Its value."""
        return Lanes(self._builder, self._builder.load(self._place))


class Code:
    """The kernel that is being emitted: memory, constants, loops and branches."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def number(self, value: Any) -> Lanes:
        """A number that was passed as an argument."""
        return Lanes(self.builder, value)

    def word(self, value: int) -> Lanes:
        """A constant of 32 bits."""
        return Lanes(self.builder, ir.Constant(WORD, value))

    def long(self, value: int) -> Lanes:
        """A constant of 64 bits."""
        return Lanes(self.builder, ir.Constant(LONG, value))

    def short(self, number: Lanes) -> Lanes:
        """The low 32 bits of a 64-bit number."""
        return Lanes(self.builder, self.builder.trunc(number.value, WORD))

    def wide(self, number: Lanes) -> Lanes:
        """An unsigned 32-bit number in 64 bits."""
        return Lanes(self.builder, self.builder.zext(number.value, LONG))

    def byte(self, number: Lanes) -> Lanes:
        """The low 8 bits of a number."""
        return Lanes(self.builder, self.builder.trunc(number.value, BYTE))

    def lanes(self, value: float, kind: Any = WORD, count: int = WIDTH) -> Lanes:
        """The same constant in all lanes."""
        return Lanes(self.builder, ir.Constant(ir.VectorType(kind, count), [value] * count))

    def _pointer(self, address: Any, kind: Any, index: Any, unit: int) -> Any:
        index = index.value if isinstance(index, Lanes) else ir.Constant(LONG, index)
        at = self.builder.add(address, self.builder.mul(index, ir.Constant(LONG, unit)))
        return self.builder.inttoptr(at, kind.as_pointer())

    def load(self, address: Any, index: Any, kind: Any, *, unit: int) -> Lanes:
        """Load the value `index` times `unit` bytes after an address."""
        value = self.builder.load(self._pointer(address, kind, index, unit))
        value.align = 4
        return Lanes(self.builder, value)

    def store(self, value: Lanes, address: Any, index: Any, *, unit: int) -> None:
        """Store the value `index` times `unit` bytes after an address."""
        self.builder.store(value.value, self._pointer(address, value.type, index, unit)).align = 4

    def prefetch(self, address: Any, index: Lanes, *, unit: int) -> None:
        """Fetch the line of the cache that is `index` times `unit` bytes after an address."""
        place = self._pointer(address, BYTE, index, unit)
        kind = ir.FunctionType(ir.VoidType(), [place.type, *[WORD] * 3])
        found = cgutils.get_or_insert_function(self.builder.module, kind, "llvm.prefetch.p0")
        self.builder.call(found, [place, *(ir.Constant(WORD, told) for told in (0, 3, 1))])

    def signed(self, number: Lanes) -> Lanes:
        """A signed 32-bit number in 64 bits."""
        return Lanes(self.builder, self.builder.sext(number.value, LONG))

    def any_set(self, mask: Lanes) -> Any:
        """Whether a mask is set in any lane: a number that is not 0 if it is."""
        return self.builder.bitcast(mask.value, ir.IntType(mask.type.count))

    def number_of_any(self, mask: Lanes) -> Any:
        """`any_set` as a 64-bit number."""
        return self.builder.zext(self.any_set(mask), LONG)

    def any_bits(self, found: Lanes) -> Any:
        """The bits that are set in any of the lanes, as a 64-bit number."""
        return self.wide(self._together(found, lambda low, high: low | high)).value

    def first(self, found: Lanes) -> Lanes:
        """The first of the lanes."""
        return Lanes(self.builder, self.builder.extract_element(found.value, ir.Constant(WORD, 0)))

    def largest(self, found: Lanes) -> Lanes:
        """The largest of the lanes."""
        return self._together(found, lambda low, high: low.larger(high))

    def _together(self, found: Lanes, join: Callable[[Lanes, Lanes], Lanes]) -> Lanes:
        """Combine all lanes into one number, by joining one half with the other again and again."""
        width = found.type.count
        while width > 1:
            width //= 2
            found = join(found.shuffled(list(range(width))), found.shuffled(list(range(width, 2 * width))))
        return self.first(found)

    def gather(self, address: Any, indices: Lanes) -> Lanes:
        """The 32-bit words at an address, by the indices in the lanes."""
        count = indices.type.count
        if count == WIDTH and whole_vectors_of_words():
            return self._gather_words(address, indices)
        longs, words = ir.VectorType(LONG, count), ir.VectorType(WORD, count)
        places = ir.VectorType(WORD.as_pointer(), count)
        far = self.builder.shl(self.builder.zext(indices.value, longs), ir.Constant(longs, [2] * count))
        base = Lanes(self.builder, address).everywhere(count).value
        mask = ir.VectorType(ir.IntType(1), count)
        kind = ir.FunctionType(words, [places, WORD, mask, words])
        found = cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.masked.gather.v{count}i32.v{count}p0")
        at = self.builder.inttoptr(self.builder.add(base, far), places)
        every, none = ir.Constant(mask, [1] * count), ir.Constant(words, ir.Undefined)
        return Lanes(self.builder, self.builder.call(found, [at, ir.Constant(WORD, 4), every, none]))

    def _gather_words(self, address: Any, indices: Lanes) -> Lanes:
        """The same in one instruction of the processor, which LLVM does not choose for computed addresses."""
        none, every = ir.Constant(WORDS, [0] * WIDTH), ir.Constant(ir.VectorType(ir.IntType(1), WIDTH), [1] * WIDTH)
        given = [none, self.builder.inttoptr(address, BYTE.as_pointer()), indices, every, ir.Constant(WORD, 4)]
        return called(self.builder, "llvm.x86.avx512.mask.gather.dpi.512", WORDS, given)

    def picked(self, low: Lanes, high: Lanes, indices: Lanes) -> Lanes:
        """Words of two vectors, by the indices in the lanes: from 16 on they are in `high`. AVX-512 only."""
        return called(self.builder, "llvm.x86.avx512.vpermi2var.d.512", WORDS, [low, indices, high])

    @contextmanager
    def loop(self, start: Any, stop: Any) -> Any:
        """A loop over the numbers from `start` to `stop` - 1."""
        ends = [each.value if isinstance(each, Lanes) else ir.Constant(LONG, each) for each in (start, stop)]
        with cgutils.for_range(self.builder, ends[1], start=ends[0], intp=LONG) as found:
            yield Lanes(self.builder, found.index)

    def branch(self, condition: Any, yes: Callable[[], object], no: Callable[[], object] | None = None) -> None:
        """Emit `yes` and `no`; the condition decides which of them runs."""
        value = condition.value if isinstance(condition, Lanes) else condition
        truth = self.builder.icmp_signed("!=", value, ir.Constant(value.type, 0))
        with self.builder.if_else(truth) as (then, otherwise):
            with then:
                yes()
            with otherwise:
                if no is not None:
                    no()


def vector_code(builder: Any) -> Code:
    """A kernel that may use the widest vectors; LLVM prefers half that width, to avoid a lower clock."""
    # llvmlite has no attributes with values, but it prints any text in the set.
    set.add(builder.function.attributes, '"prefer-vector-width"="512"')
    return Code(builder)
