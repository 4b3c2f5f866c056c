"""The code of a kernel while it is emitted: memory, variables, loops and branches; `tcemu.kernels.emit.lanes` computes.

Also what numba lacks for single numbers: a multiply-add, roundings, calls by address, and numbers that threads share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tcemu.kernels.emit.lanes import BYTE, LONG, SHORT, WIDTH, WORD, WORDS, Lanes, called, whole_vectors_of_words
from tcemu.kernels.host.compiling import njit


class Variable:
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
        """A number that was passed as an argument, or is one already."""
        return value if isinstance(value, Lanes) else Lanes(self.builder, value)

    def as_address(self, value: Any) -> Lanes:
        """An address that was passed as a number or as a pointer."""
        if isinstance(value, Lanes):
            return value
        pointer = isinstance(value.type, ir.PointerType)
        return Lanes(self.builder, self.builder.ptrtoint(value, LONG) if pointer else value)

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

    def halfword(self, number: Lanes) -> Lanes:
        """The low 16 bits of a number."""
        return Lanes(self.builder, self.builder.trunc(number.value, SHORT))

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
        prefetch = cgutils.get_or_insert_function(self.builder.module, kind, "llvm.prefetch.p0")
        self.builder.call(prefetch, [place, *(ir.Constant(WORD, option) for option in (0, 3, 1))])

    def signed(self, number: Lanes) -> Lanes:
        """A signed 32-bit number in 64 bits."""
        return Lanes(self.builder, self.builder.sext(number.value, LONG))

    def any_set(self, mask: Lanes) -> Any:
        """Whether a mask is set in any lane: a number that is not 0 if it is."""
        return self.builder.bitcast(mask.value, ir.IntType(mask.type.count))

    def number_of_any(self, mask: Lanes) -> Any:
        """`any_set` as a 64-bit number."""
        return self.builder.zext(self.any_set(mask), LONG)

    def any_bits(self, lanes: Lanes) -> Any:
        """The bits that are set in any of the lanes, as a 64-bit number."""
        return self.wide(self._together(lanes, lambda low, high: low | high)).value

    def first(self, lanes: Lanes) -> Lanes:
        """The first of the lanes."""
        return Lanes(self.builder, self.builder.extract_element(lanes.value, ir.Constant(WORD, 0)))

    def largest(self, lanes: Lanes) -> Lanes:
        """The largest of the lanes."""
        return self._together(lanes, lambda low, high: low.larger(high))

    def _together(self, lanes: Lanes, join: Callable[[Lanes, Lanes], Lanes]) -> Lanes:
        """Combine all lanes into one number, by joining one half with the other again and again."""
        width = lanes.type.count
        while width > 1:
            width //= 2
            lanes = join(lanes.shuffled(list(range(width))), lanes.shuffled(list(range(width, 2 * width))))
        return self.first(lanes)

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
        gather = cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.masked.gather.v{count}i32.v{count}p0")
        at = self.builder.inttoptr(self.builder.add(base, far), places)
        every, none = ir.Constant(mask, [1] * count), ir.Constant(words, ir.Undefined)
        return Lanes(self.builder, self.builder.call(gather, [at, ir.Constant(WORD, 4), every, none]))

    def _gather_words(self, address: Any, indices: Lanes) -> Lanes:
        """The same in one instruction of the processor, which LLVM does not choose for computed addresses."""
        none, every = ir.Constant(WORDS, [0] * WIDTH), ir.Constant(ir.VectorType(ir.IntType(1), WIDTH), [1] * WIDTH)
        operands = [none, self.builder.inttoptr(address, BYTE.as_pointer()), indices, every, ir.Constant(WORD, 4)]
        return called(self.builder, "llvm.x86.avx512.mask.gather.dpi.512", WORDS, operands)

    def picked(self, low: Lanes, high: Lanes, indices: Lanes) -> Lanes:
        """Words of two vectors, by the indices in the lanes: from 16 on they are in `high`. See `permutes_words`."""
        if whole_vectors_of_words():
            return called(self.builder, "llvm.x86.avx512.vpermi2var.d.512", WORDS, [low, indices, high])
        return self._picked_in_halves([low, high], indices)

    def _picked_in_halves(self, vectors: list[Lanes], indices: Lanes) -> Lanes:
        """The same by AVX2, whose permutations take eight words."""
        halves = [half for vector in vectors for half in _halves(vector)]
        picked_lanes = []
        for some in _halves(indices):
            picked = [called(self.builder, "llvm.x86.avx2.permd", some.type, [half, some]) for half in halves]
            which = some.down(3)
            for number, words in enumerate(picked[1:], 1):
                picked[0] = which.compare("==", number).choose(words, picked[0])
            picked_lanes.append(picked[0])
        return picked_lanes[0].joined(picked_lanes[1], list(range(WIDTH)))

    @contextmanager
    def loop(self, start: Any, stop: Any, *, unrolled: bool = True) -> Iterator[Lanes]:
        """A loop over the numbers from `start` to `stop` - 1. LLVM may repeat its body if it is `unrolled`."""
        ends = [each.value if isinstance(each, Lanes) else ir.Constant(LONG, each) for each in (start, stop)]
        with cgutils.for_range(self.builder, ends[1], start=ends[0], intp=LONG) as counted:
            yield Lanes(self.builder, counted.index)
        if not unrolled:
            _, end_of_body = counted.index.incomings[-1]
            end_of_body.terminator.set_metadata("llvm.loop", _not_unrolled(self.builder.module))

    def each(self, count: Any) -> AbstractContextManager[Lanes]:
        """A loop over the numbers below `count` that LLVM does not unroll.

        It takes little time, or would gain nothing; and repeated bodies take longer to compile.
        """
        return self.loop(0, self.number(count), unrolled=False)

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


def _halves(vector: Lanes) -> list[Lanes]:
    half = vector.type.count // 2
    return [vector.shuffled(list(range(first, first + half))) for first in (0, half)]


def vector_code(builder: Any) -> Code:
    """A kernel that may use the widest vectors; LLVM prefers half that width, to avoid a lower clock."""
    # llvmlite has no attributes with values, but it prints any text in the set.
    set.add(builder.function.attributes, '"prefer-vector-width"="512"')
    return Code(builder)


def _not_unrolled(module: Any) -> Any:
    """Metadata that tells LLVM not to unroll a loop. Its first operand is itself, so that no two loops share it."""
    node = ir.MDValue(module, [module.add_metadata(["llvm.loop.unroll.disable"])], name=str(len(module.metadata)))
    node.operands = (node, *node.operands)
    return node


class Strided(NamedTuple):
    """Words of the same kind of some tiles: the address of the first one's, and the bytes from each to the next."""

    address: Any
    step: Lanes

    def of(self, tile: Lanes) -> Any:
        """The address of a tile's words."""
        return (Lanes(tile.builder, self.address) + tile * self.step).value


# ---------------------------------------------------------------------------------------------- single numbers

inlined = njit(cache=True, nogil=True, forceinline=True)


@inlined
def bits32(x):  # type: ignore[no-untyped-def]
    """The pattern of a float32."""
    return np.float32(x).view(np.uint32)


@inlined
def value32(pattern):  # type: ignore[no-untyped-def]
    """The float32 of a pattern."""
    return np.uint32(pattern).view(np.float32)


@intrinsic
def whole_vectors(typingctx):  # type: ignore[no-untyped-def]
    """Let the function around it use the widest vectors that the processor has.

    LLVM prefers 256 bits on most processors that have 512, to avoid a lower clock; here every cycle counts.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        # llvmlite has no attributes with values, but it prints any text in the set.
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.none(), codegen


_LONG = ir.IntType(64)


@intrinsic
def call(typingctx, address, numbers):  # type: ignore[no-untyped-def]
    """Call the function at an address with a tuple of 64-bit numbers; see `address_of`."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        arguments = cgutils.unpack_tuple(builder, args[1])
        kind = ir.FunctionType(ir.VoidType(), [_LONG] * len(arguments))
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), arguments)
        return context.get_dummy_value()

    return types.void(address, numbers), codegen


@intrinsic
def _pointer_to_words(typingctx, address):  # type: ignore[no-untyped-def]
    kind = types.CPointer(types.int32)

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.inttoptr(args[0], WORD.as_pointer())

    return kind(types.uint64), codegen


@inlined
def words_at(address, count):  # type: ignore[no-untyped-def]
    """An array of so many int32 at an address."""
    return numba.carray(_pointer_to_words(address), count)


def record_at(dtype: np.dtype[Any]) -> Any:
    """A function for compiled code: the record of a structured dtype at an address."""
    record = numba.from_dtype(dtype)

    @intrinsic
    def at(typingctx, address):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            return builder.inttoptr(args[0], context.get_value_type(record))

        return record(types.uint64), codegen

    return at


@cache
def address_of(function: Any, *kinds: Any) -> int:
    """The address of a compiled function of 64-bit numbers, of these types, that returns nothing."""
    function.compile(types.void(*kinds).args)
    compiled = function.overloads[kinds]
    return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name))


@intrinsic
def multiply_add(typingctx, a, b, c):  # type: ignore[no-untyped-def]
    """a * b + c of three floats of one type, rounded once: numba has no such function."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.fma(*args)

    return a(a, b, c), codegen


@intrinsic
def round_as(typingctx, mode):  # type: ignore[no-untyped-def]
    """Set how the processor rounds floats in this thread: 0 to nearest, 1 toward zero, 2 down, 3 up.

    Until it is 0 again, compute only with operands loaded from memory: LLVM does not know that results depend on the
    rounding, and may move other computations.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        word = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [word]), "llvm.set.rounding"
        )
        number = builder.xor(builder.trunc(args[0], word), ir.Constant(word, 1))  # LLVM's: 1, 0, 3, 2
        builder.call(function, [number])
        return context.get_dummy_value()

    return types.none(types.int64), codegen


def _pointer(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, _LONG.as_pointer())


@intrinsic
def atomic_add(typingctx, address, number):  # type: ignore[no-untyped-def]
    """Add to the 64-bit number at an address that threads share; returns what it was."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.atomic_rmw("add", _pointer(builder, args[0]), args[1], "seq_cst")

    return types.int64(types.uint64, types.int64), codegen


@intrinsic
def atomic_min(typingctx, address, number):  # type: ignore[no-untyped-def]
    """Lower the 64-bit number at an address that threads share to another, if that is less."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.atomic_rmw("min", _pointer(builder, args[0]), args[1], "seq_cst")

    return types.int64(types.uint64, types.int64), codegen


@intrinsic
def atomic_load(typingctx, address):  # type: ignore[no-untyped-def]
    """The 64-bit number at an address that threads share."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.load_atomic(_pointer(builder, args[0]), "seq_cst", 8)

    return types.int64(types.uint64), codegen
