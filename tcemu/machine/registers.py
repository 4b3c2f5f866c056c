"""Registers of a warp: numbered from 0, and accessed through arrays (32, n) that report every read and write.

A bank is a run of registers that were allocated together; their numbers in the warp start at `bank.first`. A
`Registers` is a view of some registers of one bank. A kernel treats it as a numpy array: it indexes it, assigns to it
and computes with it. The machine reports reads and writes to the observers; results that are still pending read as
poison. A front end for PTX text allocates one bank for its %r and takes views of it: `bank.view([17, 3])`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from tcemu.errors import LaunchError, OperandError, UnknownName, briefly, listing
from tcemu.instructions import Instruction
from tcemu.machine.lanes import differing
from tcemu.machine.register_keys import chosen_columns, first_numbers, is_view

Array = npt.NDArray[Any]

#: The instruction that made registers, the role of its operand, and the target.
Origin = tuple[Instruction, str, str]
#: Lanes of a warp.
WARP = 32
#: Every lane, bool (32,), as bytes.
_ALL = bytes([True]) * WARP
#: The content of a register that is unwritten, or whose result is still pending: a NaN in f32, f16 and bf16.
POISON = 0x7FFFDEAD
#: The dtypes of registers.
KINDS = np.dtype(np.uint32), np.dtype(np.uint64)


class Watcher(Protocol):
    """The warp that registers belong to, to which they report reads and writes."""

    @property
    def active(self) -> Array:
        """The lanes that are active now, bool (32,)."""

    @property
    def watched(self) -> bool:
        """Whether the launch has observers."""

    @property
    def heard(self) -> bool:
        """Whether an observer needs each read and write, not only reads of unwritten registers."""

    def touched(self, registers: Registers, writes: bool, which: tuple[int, ...], unwritten: tuple[int, ...]) -> None:
        """Registers `which` are read or written; those in `unwritten` are read in a lane that was never written."""


class Bank:
    """Registers `first` to `first + n - 1` of one warp; `bits` (32, n) of uint32 or uint64 is their content."""

    __slots__ = ("__weakref__", "bits", "first", "pending", "source", "unwritten", "veiled", "watcher")

    def __init__(self, bits: Array, watcher: Watcher | None = None, first: int = 0) -> None:
        if bits.ndim != 2 or bits.dtype not in KINDS:
            raise OperandError(
                f"registers of a warp must be an array (32, n) of uint32 or uint64; got {bits.dtype} {bits.shape}"
            )
        self.bits, self.watcher, self.first = bits, watcher, first
        #: the registers that each pending mma_async will write; None stands for all
        self.pending: list[Array | None] = []
        #: whether pending results hide the content
        self.veiled = False
        #: bool (32, n): lanes that were never written; None if all were
        self.unwritten: Array | None = None
        #: if memory was unwritten that a load read: the instruction, and the cells
        self.source = ""

    def view(self, numbers: Sequence[int]) -> Registers:
        """Some of its registers, numbered within the bank, as operands of an instruction: (32, len(numbers))."""
        return Registers(self, np.asarray(numbers, np.intp))


class Registers(NDArrayOperatorsMixin):
    """Registers (32, n) of uint32 or uint64 of one warp, a view of a bank.

    `origin` says which instruction they came from, as (instruction, role, target). Reading (indexing, any numpy
    function) returns copies; assigning to `registers[...]` writes. `bits` is the content, read without an observer.
    """

    __slots__ = ("_columns", "bank", "origin")

    def __init__(self, bank: Bank, columns: Array | None = None, origin: Origin | None = None) -> None:
        self.bank, self.origin = bank, origin
        #: which registers of the bank these are; None for all of them
        self._columns = columns

    # ---------------------------------------------------------------------------------------- as an array

    @property
    def bits(self) -> Array:
        """The content, read without an observer."""
        return self.bank.bits if self._columns is None else self.bank.bits[:, self._columns]

    @property
    def numbers(self) -> tuple[int, ...]:
        """Their numbers in the warp."""
        first = self.bank.first
        if self._columns is None:
            return tuple(range(first, first + self.bank.bits.shape[1]))
        return tuple([first + number for number in self._columns.tolist()])

    @property
    def shape(self) -> tuple[int, int]:
        """(32, n)."""
        lanes, count = self.bank.bits.shape
        return lanes, count if self._columns is None else len(self._columns)

    @property
    def dtype(self) -> np.dtype[Any]:
        """uint32, or uint64 for f64."""
        return self.bank.bits.dtype

    @property
    def ndim(self) -> int:
        """2."""
        return 2

    @property
    def pending(self) -> bool:
        """Whether a result is pending in any of them."""
        return bool(self.bank.pending) and bool(self._hidden().any())

    def __len__(self) -> int:
        return len(self.bank.bits)

    def __bool__(self) -> bool:
        raise differing()

    def __getitem__(self, key: Any) -> Any:
        self.touch(False, key, only_moved=True)
        seen = self.seen()
        try:
            return seen[key].copy() if self._columns is None and is_view(key) else seen[key]
        except IndexError as error:
            raise OperandError(f"{self!r} has no [{briefly(key)}]: {error}") from None

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write active lanes; the others keep their values."""
        patterns = self._patterns(value)
        self.touch(True, key)
        bank, lanes = self.bank, self._taking_part
        columns: Any = slice(None) if self._columns is None else self._columns
        content = self.bits.copy()
        try:
            content[key] = patterns
        except IndexError as error:
            raise OperandError(f"{self!r} has no [{briefly(key)}]: {error}") from None
        except ValueError as error:
            at = f"{self!r}[{briefly(key)}]"
            raise OperandError(f"{at} does not hold a value of shape {patterns.shape}: {error}") from None
        if bank.unwritten is None and (lanes is None or lanes.tobytes() == _ALL):
            bank.bits[:, columns] = content
            return
        wanted = np.zeros(self.shape, bool)
        wanted[key] = True
        if lanes is not None:
            wanted &= lanes[:, None]
        bank.bits[:, columns] = np.where(wanted, content, bank.bits[:, columns])
        if bank.unwritten is not None:
            bank.unwritten[:, columns] &= ~wanted

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        self.touch(False, only_moved=True)
        return self.seen().astype(self.dtype if dtype is None else dtype, copy=True)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **keywords: Any) -> Any:
        operands = [value.used() if isinstance(value, Registers) else value for value in inputs]
        if out is not None and "where" in keywords:  # elsewhere they keep their values, which is no read
            keywords["out"] = tuple(each.seen().copy() if isinstance(each, Registers) else each for each in out)
        try:
            result = getattr(ufunc, method)(*operands, **keywords)
        except ValueError as error:
            raise _unfit(ufunc, operands, error) from None
        if out is None:
            return result
        answers = []
        for target, answer in zip(out, result if ufunc.nout > 1 else (result,), strict=True):
            if target is not None:
                target[...] = answer
            answers.append(answer if target is None else target)
        return tuple(answers) if ufunc.nout > 1 else answers[0]

    def used(self) -> Array:
        """A numpy array of the content, for an operation that uses every active lane of it."""
        self.touch(False)
        return self.seen().copy()

    def content(self) -> Array:
        """The same for an operation that neither writes to the array nor keeps it: it may be the bank itself."""
        self.touch(False)
        return self.seen()

    def copy(self) -> Array:
        """A numpy array of the content, read now."""
        return np.asarray(self)

    def view(self, dtype: npt.DTypeLike) -> Array:
        """The content, read now, as another dtype."""
        try:
            return np.asarray(self).view(dtype)
        except (TypeError, ValueError) as error:
            raise OperandError(f"{self!r} cannot be viewed as {briefly(dtype)}: {error}") from None

    def astype(self, dtype: npt.DTypeLike) -> Array:
        """The content, read now, as integers of another width. Floats are refused: `view` reads bits as floats."""
        try:
            kind = np.dtype(dtype)
        except TypeError as error:
            raise OperandError(f"{self!r} cannot be converted to {briefly(dtype)}: {error}") from None
        if kind.kind not in "iub":
            raise OperandError(
                f"registers hold bits, and .astype would make a float of the whole number they spell: 1065353216.0 of "
                f"0x3f800000, which is 1.0 in f32. .view(np.{_float_of(self.dtype)}) reads the bits as floats, as "
                f"__uint_as_float does in CUDA; to convert whole numbers (cvt.rn.f32.u32), write "
                f".view(np.{self.dtype}).astype(np.{kind})"
            )
        return np.asarray(self).astype(kind)

    def __getattr__(self, name: str) -> Any:
        """What only arrays have; the message says how to get an array."""
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"registers have no {name!r}", name=name, obj=self)
        raise UnknownName(
            f"registers have no .{name}: they are not a numpy array. registers[...] reads them into an array "
            f"(32, {self.shape[1]}) of {self.dtype}, with a row for each lane; registers[...].{name} is then numpy's"
        )

    def __repr__(self) -> str:
        came = f" of {self.origin[0]}" if self.origin else ""
        state = ", result pending" if self.pending else ""
        return f"<registers{came} {self.shape} {self.dtype}{state}>"

    # ---------------------------------------------------------------------------------------- for the machine

    def begin(self, *, veiled: bool) -> None:
        """An mma_async that writes them is pending; `veiled` hides the content until it ends."""
        self.bank.pending.append(self._columns)
        self.bank.veiled = veiled

    def end(self, result: Array) -> None:
        """The mma_async ends and writes `result` (32, n)."""
        bank, columns = self.bank, slice(None) if self._columns is None else self._columns
        bank.bits[:, columns] = result
        first = bank.pending[0] is self._columns  # most often
        bank.pending.pop(0 if first else next(n for n, each in enumerate(bank.pending) if each is self._columns))
        if bank.unwritten is not None:
            bank.unwritten[:, columns] = False
            if not bank.unwritten.any():
                bank.unwritten = None

    def unwritten(self) -> tuple[int, ...]:
        """Numbers, within the bank, of the registers that are unwritten in some lane."""
        missing = self.bank.unwritten
        if missing is None:
            return ()
        wanted: Array = np.asarray(missing.any(axis=0))
        return tuple(number for number in self.which() if wanted[number])

    def which(self, key: Any = ...) -> tuple[int, ...]:
        """Numbers, within the bank, of the registers that `key` chooses."""
        if key is Ellipsis:
            return first_numbers(self.bank.bits.shape[1]) if self._columns is None else tuple(self._columns.tolist())
        try:
            chosen = chosen_columns(self.shape, key)
        except IndexError as error:
            raise OperandError(f"{self!r} has no [{briefly(key)}]: {error}") from None
        return chosen if self._columns is None else tuple(np.unique(self._columns[list(chosen)]).tolist())

    def touch(self, writes: bool, key: Any = ..., *, only_moved: bool = False) -> None:
        """Report to the warp that the kernel reads or writes `registers[key]`.

        `only_moved`: a register counts as unwritten only if no active lane of it was written, because the kernel may
        choose the others later.
        """
        bank = self.bank
        watcher = bank.watcher
        if watcher is None or not watcher.watched:
            return
        blind = () if writes or bank.unwritten is None else self._blind(key, watcher.active, only_moved)
        if blind or watcher.heard:
            watcher.touched(self, writes, self.which(key), blind)

    def _blind(self, key: Any, active: Array, only_moved: bool) -> tuple[int, ...]:
        """Registers of `registers[key]` that are read in a lane that was never written."""
        unwritten = self.bank.unwritten
        if unwritten is None:
            return ()
        read = np.zeros(self.shape, bool)
        read[key] = True
        missing = unwritten if self._columns is None else unwritten[:, self._columns]
        wanted: Array = np.asarray((read & missing & active[:, None]).any(axis=0))
        if only_moved:
            wanted &= ~(read & ~missing & active[:, None]).any(axis=0)
        numbers = np.arange(len(wanted), dtype=np.int64) if self._columns is None else self._columns
        return tuple(numbers[wanted].tolist())

    def _patterns(self, value: Any) -> Array:
        """The value to be written, as integers."""
        try:
            array = np.asarray(value)
        except LaunchError:  # the sanitizer's, about registers that are read here
            raise
        except Exception as error:  # noqa: BLE001 - whatever an object's __array__ raises
            raise OperandError(f"not an array: {error}") from None
        if array.dtype.kind not in "iub":
            raise OperandError(
                f"registers hold bits, written as integers; got dtype {array.dtype}. Pass bits with "
                f".view(np.{self.dtype}) or Fragment.pack"
            )
        return array

    @property
    def _taking_part(self) -> Array | None:
        """Lanes that take part; None if all do."""
        watcher = self.bank.watcher
        return None if watcher is None else watcher.active

    def seen(self) -> Array:
        """The content as a kernel sees it now, read without an observer: poison where a result is pending."""
        bank = self.bank
        if not bank.pending or not bank.veiled:
            return bank.bits if self._columns is None else bank.bits[:, self._columns]
        hidden = self._hidden()
        return np.where(hidden, self.dtype.type(POISON), self.bits) if hidden.any() else self.bits

    def _hidden(self) -> Array:
        """Which of them have a pending result, bool (n,)."""
        waiting = np.zeros(self.bank.bits.shape[1], bool)
        for columns in self.bank.pending:
            waiting[... if columns is None else columns] = True
        return waiting if self._columns is None else waiting[self._columns]


def _float_of(kind: np.dtype[Any]) -> str:
    """The float of a register's width."""
    return f"float{8 * kind.itemsize}"


def _unfit(ufunc: np.ufunc, operands: Sequence[Any], error: ValueError) -> OperandError:
    """The error for operands that a function of numpy does not take together."""
    shapes = [np.shape(each) for each in operands]
    hint = "; values[:, None] gives each lane one value for all its registers" if (WARP,) in shapes else ""
    why = "they do not broadcast" if "broadcast" in str(error) else str(error)
    return OperandError(
        f"np.{ufunc.__name__} of shapes {listing(shapes, 'and')}: {why}. Registers are arrays (32, n), with a row for "
        f"each lane{hint}"
    )
