"""Products of many small tiles at once, from registers into registers: batches of instructions, or one large one.

Index tables, which the layouts make once, say where each element is: its word, and its first bit there. The kernel
reads the elements of a tile by one such table, in the order in which the blocks take them, and writes the results to
registers by another. Matrices count as registers too, with a layout of their own: C order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.kernels.batch.abi import FORMAT, PLAN, RULE, SCRATCH, WORK_WORDS
from tcemu.kernels.batch.gather import CODES, Elements, Load, Pruned, Results, gather_table, gather_words_at, words_read
from tcemu.kernels.batch.load import ENTRIES, SPREAD_ROWS, SPREADS, UNCHANGED
from tcemu.kernels.batch.others import run_grouped, run_plainly
from tcemu.kernels.batch.run import run_fused, with_functions
from tcemu.kernels.batch.sharing import LEFT, SHARED, SHARES, share_tiles
from tcemu.kernels.emit.lanes import WIDTH
from tcemu.kernels.host.memory import Kept, aligned, check_words, whole
from tcemu.kernels.sums import CHAINS, FUSED, GROUPED, ROWS, SAFE, above, of_few_bits, space, start_of_window

Array = npt.NDArray[Any]


class Parts:
    """Tables of words, one after another; each begins at a whole vector."""

    def __init__(self) -> None:
        self._tables: list[Array] = []
        self.address = 0

    def add(self, table: Array) -> int:
        """Add a table; returns where it begins."""
        begin = sum(each.size for each in self._tables)
        self._tables.append(np.pad(table.ravel(), (0, whole(table.size) - table.size)))
        return begin

    def together(self) -> Array:
        """All of them as words."""
        values = np.concatenate([*self._tables, np.empty(0, np.int64)])
        words = aligned(values.size, np.uint32)
        words[...] = values
        self.address = int(words.ctypes.data)
        return words


_NO_SCALES, _NO_METADATA = np.empty((0, 0), np.int32), np.empty((1, 0), np.uint32)
#: Tiles that are computed together, at most, and the words of room that they may take.
_TOGETHER, _ROOM = 8, 1 << 16
_KEPT = Kept()
_NOTHING = np.empty(0, np.int64)


class Rule(NamedTuple):
    """The arithmetic in numbers.

    kind: of the arithmetic. option: what else it takes, see `tcemu.kernels.batch.others`. fraction to join: see
    RULE. addends and results: what C and D hold: FLOAT32, FLOAT16 or UNCHANGED of `tcemu.kernels.batch.load`. scaled:
    whether each product of a fused sum has two scales.
    """

    kind: int = FUSED
    option: int = 0
    fraction: int = 0
    floor: int = -(1 << 19)
    keep: int = 23
    half: bool = False
    join: bool = False
    addends: int = UNCHANGED
    results: int = UNCHANGED
    scaled: bool = False


def _four_for_two(ks: Sequence[int]) -> tuple[int, ...]:
    """The k of B's elements that the stored elements `ks` of a sparse A may meet: two of them stand for four."""
    return tuple(4 * pair + i for pair in sorted({k // 2 for k in ks}) for i in range(4))


def _computed(count: int, compute: Callable[[Array, bool], None], *, alone: bool = False) -> bool:
    """Let a function compute so many tiles, on all cores if there are many; whether it has. See `share_tiles`."""
    if count > SHARED and not alone:
        return share_tiles(count, compute) == count
    # The call of another module would be one more on the way of a single wgmma.
    numbers = np.zeros(SHARES, np.int64)
    numbers[LEFT] = count
    compute(numbers, True)
    return bool(numbers[LEFT] == count)


@dataclass(frozen=True, eq=False)
class BatchPlan:
    """A batched product D = A B + C with everything known in advance: formats, rule and index tables.

    shape: (m, n, k) of a tile; k counts the stored elements of a sparse A. formats: of A's and of B's elements, seven
    numbers each: those of FORMAT in `tcemu.kernels.batch.abi`; for
    integers the first is the sign bit. sums: the k of each fused sum, or of each group of products.
    """

    shape: tuple[int, int, int]
    rule: Rule
    formats: tuple[Sequence[int], Sequence[int]]
    sums: tuple[tuple[int, ...], ...]
    a: Elements
    b: Elements
    c: Elements
    d: Results
    pruned: Pruned | None = None
    #: Whether vectors must run along m: only there may words of ones stand for elements that are not stored.
    lengthwise: bool = False
    #: Products of a tile; where there are several, two share a vector. The elements of each are together.
    products: int = 1

    def stretched(self) -> BatchPlan:
        """The same for an A with all its elements: words of ones stand for those that a sparse A does not store."""
        m, n, k = self.shape
        sums = tuple(_four_for_two(ks) for ks in self.sums)
        return replace(self, shape=(m, n, 2 * k), sums=sums, a=Elements(self.a.word, self.a.bit, -1), lengthwise=True)

    @cached_property
    def along_n(self) -> bool:
        """Whether vectors run along n; otherwise along m."""
        m, n, _ = self.shape
        return not self.pruned and not self.lengthwise and m % WIDTH != 0 and n > m

    @property
    def lanes(self) -> Array:
        """The rows (or columns) of the vectors, (groups, 16); lanes after the last repeat others."""
        across = self.shape[self.along_n] * self.products
        return (np.arange(-(-across // WIDTH) * WIDTH) % across).reshape(-1, WIDTH)

    @property
    def rows(self) -> Array:
        """The columns (or rows) that are taken one at a time, (groups, 4)."""
        along = self.shape[not self.along_n]
        return (np.arange(-(-along // ROWS) * ROWS) % along).reshape(-1, ROWS)

    @property
    def _rows_of_pairs(self) -> Array:
        """`rows` of both products of each pair, as numbers of elements of B, (pairs and groups, 1, 1, rows of both)."""
        _, n, k = self.shape
        first = np.arange(self.products).reshape(-1, 1, 2, 1) * (k * n)
        return (first + self.rows[:, None]).reshape(-1, 1, 1, 2 * ROWS)

    @cached_property
    def in_order(self) -> Array:
        """(sums, products): the k of A's elements. The order in a sum does not matter."""
        as_given = self.pruned or self.rule.kind == CHAINS
        return np.array([ks if as_given else self.ordered(ks, self._bits) for ks in self.sums])

    @cached_property
    def longer(self) -> Array:
        """(sums, products): the k of B's elements. Two stored elements stand for four that may be met."""
        if self.pruned is None:
            return self.in_order
        return np.array([self.ordered(_four_for_two(ks), self._bits) for ks in self.sums])

    def ordered(self, ks: Sequence[int], bits: Array) -> list[int]:
        """The k of a sum in the order of its products; a long sum is ordered in two halves, see SAFE.

        bits: for each k, the first bit of an element in its word. Elements of one word are then at the same place of
        different vectors, which are made from the same words.
        """
        size = len(ks) // 2 if len(ks) > 2 * SAFE else len(ks)
        halves = ks[:size], ks[size:]
        return [k for half in halves for k in sorted(half, key=lambda k: int(bits[k]))]

    @property
    def _bits(self) -> Array:
        """For each k, the first bit of an element of B in its word."""
        bits = self.b.bit.ravel()
        return bits[: bits.size // self.products : self.shape[1]]

    def _elements(self) -> tuple[Array, Array, Array, Array]:
        """Element numbers, C order, in the order of the blocks: for x, y, accumulators, and where each result is.

        What repeats others is not read.
        """
        m, n, k = self.shape
        lanes, rows = self.lanes[:, None, None], self.rows[:, None, None]
        if self.along_n:
            x, y = self.in_order[None, :, :, None] * n + lanes, rows * k + self.in_order[None, :, :, None]
            c = rows.reshape(1, -1, ROWS, 1) * n + lanes
        else:
            of_y = rows if self.products == 1 else self._rows_of_pairs
            x, y = lanes * k + self.in_order[None, :, :, None], self.longer[None, :, :, None] * n + of_y
            c = lanes * n + rows.reshape(1, -1, ROWS, 1)
        where = np.empty(self.products * m * n, np.int64)
        where[c.ravel()[::-1]] = np.arange(c.size)[::-1]
        return x, y, c, where

    @cached_property
    def _spread(self) -> Array:
        """The table of `spread` for all vectors of the longer operand; empty if A is dense."""
        if self.pruned is None:
            return _NOTHING
        stored, chunk, chunks = self.pruned.stored, self.pruned.chunk, self._chunks
        at, rows = ({k: i for i, k in enumerate(each.ravel().tolist())} for each in (self.in_order, self.longer))
        # Stored elements i and i + apart may take the same places.
        apart = max(stored // 2, 1)
        order = sorted(rows, key=lambda k: (k // chunk, k % chunk % apart, k))
        heads, groups = set(), []
        for lanes, first in product(range(len(self.lanes)), range(0, len(order), SPREAD_ROWS)):
            ks = order[first : first + SPREAD_ROWS]
            every = ({(k // chunk, i): self.pruned.codes_with(i, k % chunk) for i in range(stored)} for k in ks)
            metadata = [{source: codes for source, codes in each.items() if codes} for each in every]
            sources = sorted(set().union(*metadata))
            heads.add(tuple(each.get(source, 0) for source in sources for each in metadata))
            of_codes = (lanes * chunks + number for number, _ in sources)
            of_stored = (lanes * len(at) + at[number * stored + i] for number, i in sources)
            groups.append([*of_codes, *of_stored, *(lanes * len(rows) + rows[k] for k in ks)])
        [head] = heads
        return np.concatenate([np.pad(head, (0, WIDTH - len(head))), np.array(groups).ravel()])

    @property
    def _chunks(self) -> int:
        """Chunks of a row of A."""
        return self.shape[2] // self.pruned.stored if self.pruned else 0

    def _loads(self, x: Array, y: Array, c: Array) -> list[Load]:
        """How x, y, c and the metadata are loaded."""
        operands = (self.b, self.a) if self.along_n else (self.a, self.b)
        loads = [place.load(elements) for place, elements in zip((*operands, self.c), (x, y, c), strict=True)]
        if self.pruned is None:
            return [*loads, Load(_NOTHING, _NOTHING, _NOTHING, 0, 0, 0)]
        codes = self.lanes[:, None] * self._chunks + np.arange(self._chunks)[:, None]
        return [*loads, Elements(self.pruned.word, self.pruned.bit, CODES - 1).load(codes)]

    @cached_property
    def _made(self) -> tuple[Array, Array]:
        """The PLAN, and all its tables, which live as long."""
        x, y, c, where = self._elements()
        parts, loads = Parts(), self._loads(x, y, c)
        plan = np.zeros(1, PLAN)
        for field, value in zip(RULE.names or (), self.rule_in_numbers, strict=True):
            plan["rule"][field] = value
        formats = self.formats[::-1] if self.along_n else self.formats
        begin = [[parts.add(table) for table in load.tables] for load in loads]
        out = [gather_table(row) for row in where[self.d.elements].T]
        size = whole(max(map(len, out)))
        # networks of different lengths: the shorter are filled up
        of_results, *_ = [parts.add(np.pad(each, (0, size - len(each)))) for each in out]
        above_sign = self._above(formats, loads)
        of_above, of_spread = [parts.add(each) for each in above_sign], parts.add(self._spread)
        tables, start = parts.together(), parts.address
        for name, load, places in zip("xyce", loads, begin, strict=True):
            operand = plan[name]
            for field, place in zip(("gather", "source", "bits"), places, strict=True):
                operand[field] = start + 4 * place
            operand["loaded"], operand["mask"], operand["flip"] = load.vectors, load.mask, load.flip
            operand["vectors"] = len(self.lanes) * self.longer.size if name == "x" and self.pruned else load.vectors
        for name, form, place in zip("xy", formats, of_above, strict=False):
            plan[name]["above"], plan[name]["start"] = start + 4 * place, start_of_window(form)
        for name, form in zip("xy", formats, strict=True):
            for field, value in zip(FORMAT.names or (), form, strict=True):
                plan[name]["format"][field] = value
        results, rule = plan["results"], self.rule
        results["gather"], results["size"], results["per"] = start + 4 * of_results, 4 * size, len(out)
        results["width"], results["words"], results["kind"] = self.d.width, len(self.d.elements), rule.results
        plan["addends"], plan["option"] = rule.addends, rule.option
        plan["illegal"] = self.pruned.illegal if self.pruned else 0
        plan["spread"], plan["spread_groups"] = start + 4 * of_spread, max(self._spread.size - WIDTH, 0) // SPREADS
        plan["quick"], plan["few"] = self._is_quick(loads), self.few_bits
        plan["blocks"], plan["gather_words"] = len(self.lanes) * len(self.rows), gather_words_at()
        plan["pairs"] = self.products > 1
        if rule.kind == FUSED:
            with_functions(plan, scaled=rule.scaled, careful=not plan["quick"])
        gathered = (*out, *(load.table for load in loads))
        self._lay_out(plan, whole(max(int(table[0]) for table in gathered if table.size)))
        return plan, tables

    def _lay_out(self, plan: Array, most: int) -> None:
        """Note where a thread's memory has what. most: words that are gathered of an operand."""
        vectors = [int(plan[name]["vectors"][0]) for name in "xyc"]
        # blocks and groups have room for what they pack
        packed = (vectors[0] + vectors[1]) * 3 + len(self.sums) * 2 * ROWS
        counts = int(plan["x"]["loaded"][0]), int(plan["e"]["loaded"][0]), *vectors, packed
        sizes = most, most, most, *(WIDTH * count for count in counts), whole(WORK_WORDS)
        together = min(max(_ROOM // sum(sizes), 1), _TOGETHER)
        plan["together"], plan["gathered"] = together, 4 * most
        for name, words in zip(SCRATCH.names or (), np.cumsum([0, *sizes]) * together, strict=True):
            plan["scratch"][name] = words if name == "all" else 4 * words

    @property
    def rule_in_numbers(self) -> tuple[int, ...]:
        """The fields of RULE."""
        rule = self.rule
        # of two products with a stored element, only one is not zero
        products = self.longer.shape[1], len(self.sums), space(rule.fraction, self.in_order.shape[1], self.formats)
        return rule.fraction, rule.floor, rule.keep, rule.half, rule.join, *products

    def _above(self, formats: Sequence[Sequence[int]], loads: list[Load]) -> list[Array]:
        """How far up the elements of x and y are in their words, where `pack_words` is tried."""
        if not self._is_quick(loads) or self.rule.kind != FUSED:
            return []
        return [above(form) - load.bits for form, load in zip(formats, loads[:2], strict=True)]

    def _is_quick(self, loads: list[Load]) -> bool:
        """Whether `pack_words` is tried, or for groups `look_up`."""
        simple = not self.lengthwise and all(load.mask and not load.flip for load in loads[:2])
        codes = all(load.mask == ENTRIES - 1 for load in loads[:2])
        return simple and (self.rule.kind == FUSED or (self.rule.kind == GROUPED and codes))

    @property
    def few_bits(self) -> bool:
        """Whether both formats have few bits."""
        return all(map(of_few_bits, self.formats))

    @cached_property
    def reach(self) -> list[int]:
        """The words that there must be of A, B, C, metadata and D."""
        of_e = words_read(self.pruned.word) if self.pruned else 0
        return [*(words_read(place.word) for place in (self.a, self.b, self.c)), of_e, len(self.d.elements)]

    def __call__(
        self,
        a: Array,
        b: Array,
        c: Array,
        *,
        metadata: Array | None = None,
        scales: tuple[Array, Array] | None = None,
        out: Array | None = None,
        known: bool = False,
    ) -> Array | None:
        """D as uint32 words (tiles, words), from contiguous words (tiles, words) of A, B and C; `out` or a new array.

        known: arrays like these, contiguous and with these dtypes and shapes, have been checked by an earlier call.

        None if the metadata of a sparse A has bits that are not legal; it comes in contiguous words too. scales: of A
        and of B, (tiles, scales) int32. For fused sums they are the exponents, one for each row of A and each column
        of B; for groups they are in the order of the blocks, see `tcemu.kernels.sums.scaled`. Tiles may be computed
        twice, so D is in no memory of the others.
        """
        x, y = (b, a) if self.along_n else (a, b)
        of_x, of_y = (_NO_SCALES, _NO_SCALES) if scales is None else scales[::-1] if self.along_n else scales
        d = np.empty((len(c), len(self.d.elements)), np.uint32) if out is None else out
        metadata = _NO_METADATA if metadata is None else metadata
        if not known:
            check_words(np.uint32, self.reach, (a, b, c, metadata, d))
        plan, kind = self._address, self.rule.kind
        if kind == FUSED:

            def compute(sharing: Array, wait: bool) -> None:
                run_fused(x, y, c, metadata, of_x, of_y, plan, self._scratch(), d, sharing, wait)

            # Scales are looked up by the caller, who shares tiles among cores for that.
            done = _computed(len(d), compute, alone=self.rule.scaled)
            if not done and self._compiles_the_rest():
                done = _computed(len(d), compute, alone=self.rule.scaled)
        elif kind == GROUPED:
            done = run_grouped(x, y, c, metadata, of_x, of_y, plan, self._scratch(), d)
        else:
            done = run_plainly(x, y, c, metadata, kind, plan, self._scratch(), d)
        return d if done else None

    def _compiles_the_rest(self) -> bool:
        """Compile the functions that only few tiles need; whether they were missing."""
        plan, _ = self._made
        missing = not plan["multiply_tiles"]
        if missing:
            with_functions(plan, scaled=self.rule.scaled, careful=True)
        return missing

    def _scratch(self) -> Array:
        """This thread's memory for a call."""
        return _KEPT.take("batch", self._scratch_words, np.int32)

    @cached_property
    def _scratch_words(self) -> int:
        return int(self._made[0]["scratch"]["all"][0])

    @cached_property
    def _address(self) -> int:
        """The address of the PLAN."""
        return int(self._made[0].ctypes.data)

    @property
    def shares(self) -> bool:
        """Whether many tiles, in one call without scales, are computed on all cores."""
        return self.rule.kind == FUSED
