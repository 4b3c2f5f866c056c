"""The binary interface of the batch kernels: what a kernel is given, as numpy dtypes with named fields.

A PLAN is made once for an instruction, by `tcemu.kernels.batch.plan`, and never changes. WORK belongs to one call: some
tiles that are computed together. Kernels get their addresses. Compiled code reads fields of `plan_at(address)` and
`work_at(address)`, emitted code those of `Fields`. Every field has 64 bits; "address" says what is one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tcemu.kernels.emit.code import Code, record_at
from tcemu.kernels.emit.lanes import BYTES, LONG, REAL, REALS, SHORTS, WIDTH, WORD, WORDS, Lanes
from tcemu.kernels.sums import ROWS


def _numbers(*names: str) -> list[tuple[str, Any]]:
    return [(name, np.int64) for name in names]


def _addresses(*names: str) -> list[tuple[str, Any]]:
    return [(name, np.uint64) for name in names]


#: A float format: bits of the exponent and of the mantissa, bias, padding bits below, whether there are infinities, NaN
#: kind (0 none, 1 IEEE, 2 all ones), and whether subnormals are normalised, as in a wider format. For integers, the
#: first is the sign bit.
FORMAT = np.dtype(_numbers("exponent", "mantissa", "bias", "padding", "infinities", "nan", "normalised"))
#: A sum: fraction bits F, the floor of E, fraction bits kept, whether results are float16, whether chains start from
#: zero and c is added last, products of a sum, sums of a chain, and how much of a sum fits in 32 bits: `sums.space`.
RULE = np.dtype(_numbers("fraction", "floor", "keep", "half", "join", "depth", "sums", "space"))
#: How an operand is loaded: `gather`, `source` and `bits` are the addresses of tables (which words, the words' vector
#: and the first bit of each element), `above` of one that says how far up elements are in `pack_words`; vectors of
#: elements that are loaded; the mask of an element, 0 if elements are the words as they are; bits to flip; where its
#: window starts; vectors of elements as the blocks take them; its format.
OPERAND = np.dtype([
    *_addresses("gather", "source", "bits", "above"), *_numbers("loaded", "mask", "flip", "start", "vectors"),
    ("format", FORMAT),
])  # fmt: skip
#: How results are stored: the address of tables, one for each result of a word, the bytes of a table, results of a
#: word, bits of a result, words of a tile, and what results are (FLOAT32, FLOAT16, UNCHANGED).
RESULTS = np.dtype([*_addresses("gather"), *_numbers("size", "per", "width", "words", "kind")])
#: Where the parts of a thread's memory begin, in bytes: for results, gathered words of x and of y, stored elements and
#: codes of a sparse A, elements of x, of y and of c, packed elements, WORK; and all its words.
SCRATCH = np.dtype(_numbers("results", "words_x", "words_y", "stored", "codes", "x", "y", "c", "packed", "work", "all"))
#: Everything about an instruction: the rule, its operands (x in vectors, y one element at a time, c, and the metadata e
#: of a sparse A), results, memory; what C holds; what else an arithmetic takes; codes of metadata that are not legal;
#: the address of the table of `spread`, and its groups; whether `pack_words` is tried, or `look_up`; whether both
#: formats have few bits; tiles that are computed together, the bytes of a tile's gathered words, and blocks of a tile;
#: whether the halves of a vector of x belong to two products, each with a y of its own; the addresses of functions,
#: which are compiled once for all callers; the last two may be 0: see `run.with_functions`.
PLAN = np.dtype([
    ("rule", RULE), ("x", OPERAND), ("y", OPERAND), ("c", OPERAND), ("e", OPERAND), ("results", RESULTS),
    ("scratch", SCRATCH), *_numbers("addends", "option", "illegal"), *_addresses("spread"),
    *_numbers("spread_groups", "quick", "few", "together", "gathered", "blocks", "pairs"),
    *_addresses("gather_words", "compute_chains", "compute_blocks", "multiply_tiles", "compute_careful"),
])  # fmt: skip
#: The lines of the processor's cache that are fetched in advance: the address of the next tiles' words, and the lines
#: that belong to each block.
STREAM = np.dtype([*_addresses("words"), *_numbers("lines")])
#: Those of all operands and results; and how often a block fetches RUN lines of each, 0 if nothing is fetched.
PREFETCH = np.dtype([*_numbers("runs"), *((name, STREAM) for name in "xyced")])
#: Some tiles that are computed together: how many, and chains for each output; the addresses of their elements of x and
#: y, of memory for what is packed, and of accumulators; the addresses of scales of x and of y, the bytes from a tile's
#: to the next, and whether there are scales. What is found out meanwhile: `seen`
#: of the elements (SPECIAL, OUTSIDE, BARE) and what is expected of them (CARE, WIDE); the sum of both windows' starts.
#: What functions of blocks take: groups of x and of y in a tile, products of a chain; the addresses of values,
#: exponents and specials of x and of y, and of the first accumulator; whether all exponents have 16 bits; whether
#: there are specials; one more than the bits that products of short sums may have below `base`, or 0; the number of the
#: first block.
WORK = np.dtype([
    *_numbers("tiles", "steps"), *_addresses("x", "y", "packed", "c", "scales_x", "scales_y"),
    *_numbers("scale_step_x", "scale_step_y", "scaled", "seen", "expected", "base", "groups_x", "groups_y", "chain"),
    *_addresses("values_x", "exponents_x", "specials_x", "values_y", "exponents_y", "specials_y", "into"),
    *_numbers("wide", "special", "short", "first"),
    ("prefetch", PREFETCH),
])  # fmt: skip
#: Words of 32 bits that WORK takes.
WORK_WORDS = WORK.itemsize // 4

plan_at, work_at = record_at(PLAN), record_at(WORK)


class Fields:
    """The fields of a record at an address, in emitted code: `fields.rule.depth` loads one."""

    def __init__(self, code: Code, address: Any, dtype: np.dtype[Any]) -> None:
        address = code.as_address(address)  # of a record, too, as compiled code passes it
        self._code, self._address, self._dtype = code, address, dtype

    def __getattr__(self, name: str) -> Any:
        fields = self._dtype.fields
        if fields is None or name not in fields:
            raise AttributeError(name)
        dtype, offset, *_ = fields[name]
        place = self._address + offset
        nested = dtype.fields is not None
        return Fields(self._code, place.value, dtype) if nested else self._code.load(place.value, 0, LONG, unit=8)


#: The first half of one vector, and the second of another.
_HALVES = [lane + lane // (WIDTH // 2) * WIDTH for lane in range(WIDTH)]


class Packed(NamedTuple):
    """All in the order of the blocks: addresses of what WORK takes, those of one block.

    `y` has one element for each row, which all lanes take; of pairs two, one for each half of the lanes.
    """

    code: Code
    values_x: Any
    exponents_x: Any
    specials_x: Any
    values_y: Any
    exponents_y: Any
    specials_y: Any
    accumulators: Any
    pairs: bool = False

    def _everywhere(self, load: Callable[[Lanes], Lanes], k: Lanes) -> Lanes:
        """What is loaded for k, in all lanes that take it."""
        if not self.pairs:
            return load(k).everywhere()
        return load(k.up(1)).everywhere().joined(load(k.up(1) + 1).everywhere(), _HALVES)

    def x(self, k: Lanes) -> Lanes:
        """The elements of x, a float in each lane."""
        return self.code.load(self.values_x, k, REALS, unit=64)

    def y(self, k: Lanes, row: int) -> Lanes:
        """The elements of y in a row, in the lanes in which they are multiplied."""
        return self._everywhere(lambda k: self.code.load(self.values_y, k.up(2) + row, REAL, unit=4), k)

    def bytes_x(self, k: Lanes) -> Lanes:
        """The exponents of x, one byte for each row in each lane."""
        return self.code.load(self.exponents_x, k, BYTES, unit=64)

    def bytes_y(self, k: Lanes) -> Lanes:
        """The exponents of y, in the same order."""
        return self._everywhere(lambda k: self.code.load(self.exponents_y, k, WORD, unit=4), k).seen_as(BYTES)

    def shorts_x(self, k: Lanes) -> Lanes:
        """Exponents of any size, twice in each lane: in the lower and in the upper half of a word."""
        return self.code.load(self.exponents_x, k, SHORTS, unit=64)

    def shorts_y(self, k: Lanes, pair: int) -> Lanes:
        """The same of y in two rows."""
        words = self._everywhere(lambda k: self.code.load(self.exponents_y, k.up(1) + pair, WORD, unit=4), k)
        return words.seen_as(SHORTS)

    def special_x(self, k: Lanes) -> Lanes:
        """What `pack_special` has made of the elements of x."""
        return self.code.load(self.specials_x, k, REALS, unit=64)

    def special_y(self, k: Lanes, row: int) -> Lanes:
        """The same of y in a row."""
        return self._everywhere(lambda k: self.code.load(self.specials_y, k.up(2) + row, REAL, unit=4), k)

    def initial(self) -> list[Lanes]:
        """The accumulators of each row, which do not change before `put`."""
        return [self.code.load(self.accumulators, row, WORDS, unit=64) for row in range(ROWS)]

    def put(self, results: list[Lanes]) -> None:
        """Store the results of each row."""
        for row, result in enumerate(results):
            self.code.store(result, self.accumulators, row, unit=64)
