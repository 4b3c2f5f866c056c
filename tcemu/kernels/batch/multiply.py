"""All blocks of some tiles: packs their elements, chooses a path, and lets the processor fetch what is next."""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import int64, types, uint64
from numba.core import cgutils
from numba.extending import intrinsic

from tcemu.kernels.batch.load import FORMAT_X, FORMAT_Y
from tcemu.kernels.emit.code import Code, Variable, address_of, call, number, put_number, vector_code
from tcemu.kernels.emit.lanes import LONG, WIDTH, Lanes
from tcemu.kernels.host.compiling import merged, njit
from tcemu.kernels.sums import BARE, DEPTH, HALF, KEEP, OUTSIDE, ROWS, SPECIAL, SUMS
from tcemu.kernels.sums.block import Chain, Packed, short_block
from tcemu.kernels.sums.pack import PLACES, SEARCHED, exponents, pack, survey
from tcemu.kernels.sums.short import bits_below, is_short, may_be_short, squares
from tcemu.kernels.sums.specials import pack_special
from tcemu.kernels.sums.wide import pack_wide

#: Bytes of a line of the processor's caches.
LINE = 64
#: What is fetched: the words of x, y, c and metadata, and those of the results.
STREAMS = 5
#: Lines that are fetched without a loop.
RUN = 4
#: The 64-bit numbers that say it: the most runs of lines that belong to a block, and for each an address and lines.
NOTES = 1 + 2 * STREAMS


@merged
def expect(ahead, t, count, given, steps, to_d, step_d, blocks):  # type: ignore[no-untyped-def]
    """Note at an address what `fetch` takes for the tiles from tile t on; returns the address.

    given and steps: see `addresses`; to_d and step_d: the same of the results. blocks: of a tile.
    """
    most = _note(ahead, STREAMS - 1, to_d + uint64(t * step_d), step_d, blocks)
    for i in range(STREAMS - 1):
        most = max(most, _note(ahead, i, given[i] + uint64(t * steps[i]), steps[i], blocks))
    put_number(ahead, int64(0), (most + RUN - 1) // RUN if t < count else 0)
    return ahead


@merged
def _note(ahead, i, words, step, blocks):  # type: ignore[no-untyped-def]
    """Note an address, and how many lines from there on belong to each block; returns how many."""
    put_number(ahead, int64(2 * i + 1), int64(words))
    lines = (step + blocks * LINE - 1) // (blocks * LINE)
    put_number(ahead, int64(2 * i + 2), lines)
    return lines


def fetch_lines(code: Code, ahead: Any, block: Lanes) -> None:
    """Emit `fetch`. A branch that depends on an argument alone would make LLVM copy the loops around it."""
    runs = code.load(ahead, 0, LONG, unit=8)

    def fetched() -> None:
        numbers = [[code.load(ahead, 2 * i + place, LONG, unit=8) for place in (1, 2)] for i in range(STREAMS)]
        # One loop for all: some lines of the shorter ones are fetched twice, which costs less than more loops.
        with code.loop(0, runs) as run:
            for words, lines in numbers:
                begin = words + (block * lines + run * RUN) * LINE

                def some(begin: Lanes = begin) -> None:
                    for i in range(RUN):
                        code.prefetch(begin.value, code.long(i), unit=LINE)

                code.branch(lines, some)

    code.branch(runs, fetched)


@intrinsic
def fetch(typingctx, ahead, block):  # type: ignore[no-untyped-def]
    """Let the processor fetch, while it goes on, what a block of products has to fetch, if anything; see `expect`."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        code = vector_code(builder)
        fetch_lines(code, args[0], code.number(args[1]))
        return context.get_dummy_value()

    return types.none(types.uint64, types.int64), codegen


class _Place:
    """How far the loop over all chains has come: tile, group of x, group of y, block, and the chain of x and of y."""

    def __init__(self, code: Code, of_x: Lanes, of_y: Lanes, steps: Lanes) -> None:
        self._of_x, self._of_y, self._steps, self._one = of_x, of_y, steps, code.long(1)
        zeros = (Variable(code.long(0)) for _ in range(7))
        self._tile, self._i, self._j, self._step, self._block, self._x, self._y = zeros

    def now(self) -> list[Lanes]:
        """The numbers of the tile, both groups, the block, and both chains."""
        return [each.get() for each in (self._tile, self._i, self._j, self._block, self._x, self._y)]

    def go_on(self) -> None:
        """To the next chain: steps first, then groups of y, then groups of x, then tiles."""
        done = self._count(self._step, self._steps, self._one)
        done_y = self._count(self._j, self._of_y, done)
        done_x = self._count(self._i, self._of_x, done_y)
        # The same chains of x for the next group of y; the same chains of y for the next group of x.
        self._x.set(self._x.get() + 1 - (done - done_y) * self._steps)
        self._y.set(self._y.get() + 1 - (done_y - done_x) * self._of_y * self._steps)
        self._block.set(self._block.get() + done)
        self._tile.set(self._tile.get() + done_x)

    def _count(self, number: Variable, most: Lanes, step: Lanes) -> Lanes:
        """Add to a number, which becomes 0 when it reaches `most`; returns 1 if it does, else 0."""
        found = number.get() + step
        done = found.compare("==", most)
        number.set(done.choose(found - most, found))
        return done.choose(self._one, 0)


@intrinsic
def blocks(  # type: ignore[no-untyped-def]
    typingctx, tiles, of_x, of_y, steps, chain, packed, scales, apart, c, rule, base, wide, special, scaled, short,
    ahead, first,
):
    """c[row, lane] = chains of fused sums that start from it, for all blocks of some tiles: see `products.multiply`.

    of_x, of_y: the groups of x and of y in a tile. steps: chains for each output. chain: their products. packed:
    addresses of x (k, 16) float32 and ex (k, 16) its exponents, each byte four times, and what belongs to specials;
    then the same of y, (k, 4) float32 and bytes, from `pack`. scales: addresses of those of x and of y; apart: the
    bytes from a tile's to the next. c: address of float32 patterns. rule: see FRACTION. base: the sum of the starts of
    both windows. With `wide`, all come from `pack_wide`, and exponents have 16 bits. With `special`, what belongs to
    specials comes from `pack_special`. With `scaled`, scales (16) of x and (4) of y are int32 exponents, which add to
    those of the products, or SCALE_NAN; results are float32 with all their bits. If `short` is not 0, what
    belongs to specials are results of `short_sums.squares`; `short` is one more than the bits that products may have
    below `base`. ahead: see `ahead.expect`; first: the number of the first block.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        tiles, of_x, of_y, steps, chain, packed, scales, apart, c, rule, base, *flags, ahead, first = args
        code = vector_code(builder)
        tiles, of_x, of_y, steps, chain = (code.number(each) for each in (tiles, of_x, of_y, steps, chain))
        values, scales, apart = (
            [code.number(each) for each in cgutils.unpack_tuple(builder, given)] for given in (packed, scales, apart)
        )
        emitted = Chain(code, rule, base)
        wide, special, scaled, short = (code.number(each) for each in flags)
        unit = wide.compare("!=", 0).choose(code.long(2), code.long(1))

        def all_blocks(wide: Any, special: Any, scaled: Any, of_scales: Lanes, short: Any) -> None:
            place = _Place(code, of_x, of_y, steps)
            # One loop instead of four nested ones, which are often short, and each has addresses to prepare.
            with code.loop(0, tiles * of_x * of_y * steps):
                tile, i, j, block, chain_x, chain_y = place.now()
                fetch_lines(code, ahead, code.number(first) + block)
                of_lanes = scales[0] + (tile * apart[0] + i * (4 * WIDTH)) * of_scales
                of_rows = scales[1] + (tile * apart[1] + j * (4 * ROWS)) * of_scales
                found = code.number(c) + block * (4 * WIDTH * ROWS)
                x, y = chain_x * chain * WIDTH, chain_y * chain * ROWS
                moves = [x * 4, x * 4, x * 4, y * 4, y * unit, y * 4]
                if short is not False:  # a number for each chain
                    moves[2], moves[5] = chain_x * 4, chain_y * 4
                places = [value + move for value, move in zip(values, moves, strict=True)]
                sides = Packed(code, *(each.value for each in (*places, found)))
                flags = {"wide": wide, "special": special, "scaled": scaled, "short": short}
                emitted.emit(sides, (of_lanes.value, of_rows.value), **flags)
                place.go_on()

        # Each case has a loop of its own, because the addresses that all of them need do not fit the registers.
        code.branch(
            wide | special,
            lambda: all_blocks(wide, special, scaled, scaled, False),
            lambda: code.branch(
                scaled,
                lambda: all_blocks(False, False, True, scaled, short),
                lambda: all_blocks(False, False, False, scaled, False),
            ),
        )
        return context.get_dummy_value()

    address = types.uint64
    kinds = [*[types.int64] * 5, types.UniTuple(address, 6), types.UniTuple(address, 2), types.UniTuple(types.int64, 2)]
    return types.none(*kinds, address, address, *[types.int64] * 5, address, types.int64), codegen


#: What is expected of elements: that there are NaN and infinities, and some outside any window.
CARE, WIDE = 1, 2


@merged
def multiply_tiles(  # type: ignore[no-untyped-def]
    tiles, x, vectors_x, y, vectors_y, steps, numbers, room, c, scales, chains, ahead, expected
):
    """c = `steps` chains that start from c, one after the other, for each of some tiles; returns what `pack` found.

    All but counts are addresses. x (tiles, groups, steps, sums, depth, 16) has the elements in vectors, and y (tiles,
    groups, steps, sums, depth, 4) those taken one at a time; vectors_x and vectors_y count those of a tile in vectors
    of 16. c (tiles, groups of x, groups of y, 4, 16): float32 patterns. numbers: the rule as `blocks` reads it, and
    both formats as `pack` reads them. room: three words for each pattern. scales: where those of x and of y are, as
    `blocks` takes them, for all groups; the bytes from a tile's to the next, of both; and whether there are any. If an
    exponent is outside the window, only float32 results with all their bits are computed. chains: see `chains_at`;
    ahead: see `expect`. expected: CARE, WIDE, both, or 0.
    """
    all_x, all_y = tiles * vectors_x, tiles * vectors_y
    value_x, word_x, sign_x, value_y, word_y, sign_y = rooms_of(room, all_x, all_y)
    form_x, form_y = numbers + uint64(8 * FORMAT_X), numbers + uint64(8 * FORMAT_Y)
    may_be_wide, found, base = number(numbers, KEEP) == 23 and not number(numbers, HALF), int64(OUTSIDE), int64(0)
    if not (may_be_wide and expected & WIDE):
        care = int64(expected & CARE)
        seen_x, seen_y = survey(x, form_x, all_x), survey(y, form_y, all_y)
        base = (seen_x >> PLACES) + (seen_y >> PLACES)
        found = (seen_x | seen_y) >> 1 & (SPECIAL | OUTSIDE)
        if not (found & OUTSIDE and seen_x & seen_y & SEARCHED):
            found = pack(x, form_x, all_x, seen_x | care, value_x, word_x, int64(1))
            found |= pack(y, form_y, all_y, seen_y | care, value_y, word_y, int64(0))
    if found & OUTSIDE:
        if not may_be_wide:
            return found
        found |= pack_wide(x, form_x, all_x, value_x, word_x, int64(1))
        found |= pack_wide(y, form_y, all_y, value_y, word_y, int64(0))
    if found & SPECIAL:
        pack_special(x, form_x, all_x, sign_x)
        pack_special(y, form_y, all_y, sign_y)
    call(chains[0], (tiles, room, vectors_x, vectors_y, steps, numbers, c, *scales, base, found, ahead, chains[1]))
    return found


@merged
def rooms_of(room, vectors_x, vectors_y):  # type: ignore[no-untyped-def]
    """Where values, exponents and signs of packed elements go, of x and then of y, for so many vectors of all tiles."""
    size_x, size_y = uint64(64 * vectors_x), uint64(64 * vectors_y)
    other = room + uint64(3) * size_x
    return room, room + size_x, room + uint64(2) * size_x, other, other + size_y, other + uint64(2) * size_y


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True)
def _blocks(  # type: ignore[no-untyped-def]
    tiles, of_x, of_y, steps, chain, value_x, word_x, sign_x, value_y, word_y, sign_y, scale_x, scale_y, step_x, step_y,
    c, rule, base, wide, special, scaled, short, ahead, first,
):
    """`blocks` as a function of its own."""
    packed, scales, apart = (value_x, word_x, sign_x, value_y, word_y, sign_y), (scale_x, scale_y), (step_x, step_y)
    flags = wide, special, scaled, short
    blocks(tiles, of_x, of_y, steps, chain, packed, scales, apart, c, rule, base, *flags, ahead, first)


@merged
def _mostly_short(tiles, of_x, of_y, steps, squares_x, squares_y, numbers):  # type: ignore[no-untyped-def]
    """Whether most chains of some tiles are short; squares_x, squares_y: from `squares`.

    If fewer are, all of them together take less time as ordinary chains.
    """
    size, count = uint64(4), int64(0)
    for group in range(tiles * of_x):
        first = group // of_x * of_y
        for column in range(of_y):
            for step in range(steps):
                at_x, at_y = uint64(group * steps + step) * size, uint64((first + column) * steps + step) * size
                count += is_short(squares_x + at_x, squares_y + at_y, numbers)
    return 2 * count > tiles * of_x * of_y * steps


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True)
def _chains(  # type: ignore[no-untyped-def]
    tiles, room, vectors_x, vectors_y, steps, numbers, c, scale_x, scale_y, step_x, step_y, scaled, base, found, ahead,
    code,
):
    """The blocks of `multiply_tiles`, whose elements are packed.

    base: the sum of both starts. found: by `pack`, or BARE. code: the address of `_blocks`.
    """
    wide, special, bare = int64(found & OUTSIDE), int64(found & SPECIAL), int64(found & BARE)
    depth, sums = number(numbers, DEPTH), number(numbers, SUMS)
    chain = depth * sums
    of_x, of_y = vectors_x // (chain * steps), vectors_y * WIDTH // (chain * steps * ROWS)
    value_x, word_x, sign_x, value_y, word_y, sign_y = rooms_of(room, tiles * vectors_x, tiles * vectors_y)
    scales = scale_x, scale_y, step_x, step_y
    counts, size, at_x, at_y, into = (tiles, of_x, of_y, steps), uint64(4), uint64(0), uint64(0), c
    possible = not (wide | special) and may_be_short(numbers, FORMAT_X, FORMAT_Y, scaled)
    if possible:
        squares(value_x, tiles * of_x * steps, sums, depth, int64(0), sign_x)
        squares(value_y, tiles * of_y * steps, sums, depth // (WIDTH // ROWS), int64(1), sign_y)
    # With scales, `blocks` looks at each chain. Without, each is looked at here if most are short; if not, all are
    # computed at once.
    below = bits_below(numbers, FORMAT_X) + bits_below(numbers, FORMAT_Y)
    short = 1 + below if possible and scaled else int64(0)
    one_by_one = possible and not scaled and _mostly_short(tiles, of_x, of_y, steps, sign_x, sign_y, numbers)
    group, column, step, first, block = int64(0), int64(0), int64(-1), int64(0), int64(0)
    for _ in range(tiles * of_x * of_y * steps if one_by_one else 1):
        if one_by_one:
            counts, step = (int64(1), int64(1), int64(1), int64(1)), step + 1
            if step == steps:
                step, column = int64(0), column + 1
            if column == of_y:
                column, group = int64(0), group + 1
                first = group // of_x * of_y
            number_x, number_y = uint64(group * steps + step), uint64((first + column) * steps + step)
            at_x, at_y = number_x * uint64(chain * WIDTH) * size, number_y * uint64(chain * ROWS)
            block = group * of_y + column
            into = c + uint64(block * ROWS * WIDTH) * size
            if is_short(sign_x + number_x * size, sign_y + number_y * size, numbers):
                fetch(ahead, block)
                short_block(value_x + at_x, value_y + at_y * size, into, sums, depth, base)
                continue
        if bare:
            exponents(value_x, tiles * vectors_x, word_x, int64(1))
            exponents(value_y, tiles * vectors_y, word_y, int64(0))
            bare = int64(0)
        packed = (value_x + at_x, word_x + at_x, sign_x, value_y + at_y * size, word_y + at_y, sign_y)
        flags = wide, special, int64(scaled), short
        call(code, (*counts, chain, *packed, *scales, into, numbers, base, *flags, ahead, block))


@cache
def chains_at() -> tuple[int, int]:
    """The addresses of the compiled `_chains`, which `multiply_tiles` and `run_fused` call, and of `_blocks`."""
    scales, end = [uint64, uint64, int64, int64], [uint64, int64]
    inner = address_of(_blocks, *[int64] * 5, *[uint64] * 6, *scales, uint64, uint64, *[int64] * 5, *end)
    kinds = int64, uint64, *[int64] * 3, uint64, uint64, *scales, uint64, int64, int64, uint64, uint64
    return address_of(_chains, *kinds), inner
