"""Shared memory: rows with padding and swizzles, and the address of one element of a tile."""

import re

import numpy as np
import pytest
from rows import rows

import tcemu
from tcemu import show
from tcemu.errors import TcemuError
from tcemu.layouts import Descriptor
from tcemu.show import widgets
from tcemu.show.banks import LDMATRIX, Tile

# ---------------------------------------------------------------------------------------------- padding and swizzles


@rows(
    "row_bytes, padding, swizzle, count",
    [
        # rows of a whole line: every row of a part is in the same banks, unless something moves it
        (128, 0, 1, 32), (128, 16, 1, 4), (128, 32, 1, 8), (128, 64, 1, 16), (128, 128, 1, 32),
        (128, 0, 2, 16), (128, 0, 4, 8), (128, 0, 8, 4),
        (256, 0, 1, 32), (256, 16, 1, 4), (256, 0, 8, 4),
        # two rows share a line; four rows share a line
        (64, 0, 1, 16), (64, 0, 2, 8), (64, 0, 4, 4), (64, 16, 1, 4),
        (32, 0, 1, 8), (32, 0, 2, 4), (32, 16, 1, 4),
    ],
)  # fmt: skip
def test_padding_and_swizzle_cost_what_one_counts_by_hand(
    row_bytes: int, padding: int, swizzle: int, count: int
) -> None:
    picture = show.padded_tile(row_bytes, padding, swizzle)
    assert picture.title.endswith(f": {count} wavefronts, 4 without conflicts")


@pytest.mark.parametrize("row_bytes", [32, 64, 128, 256])
def test_a_swizzle_moves_units_inside_their_row(row_bytes: int) -> None:
    """So that nothing is overwritten; and a 128-byte one is that of wgmma and of tensor copies."""
    for swizzle in (each for each in (1, 2, 4, 8) if each <= row_bytes // 16):
        tile = Tile(row_bytes, 0, swizzle, 0)
        places = [[tile.address(row, unit) for unit in range(tile.units)] for row in range(16)]
        assert [sorted(each) for each in places] == np.arange(0, 16 * row_bytes, 16).reshape(16, -1).tolist()
    same = Descriptor.for_tile("f16", 16, 64, swizzle=128)
    assert all(Tile(128, 0, 8, 0).address(r, c) == same.address(r, 8 * c, "f16") for r in range(16) for c in range(8))


def test_the_marked_units_are_those_in_conflict() -> None:
    picture = show.padded_tile(128, 32, 1, 2)
    found = tcemu.wavefronts(Tile(128, 32, 1, 2).addresses, LDMATRIX)
    assert found.count == 8
    told = re.findall(r"first banks ([\d, ]+); (\d) wavefront", picture.description)
    assert [int(count) for _, count in told] == [part.wavefronts for part in found.parts] == [2, 2, 2, 2]
    assert all(len(set(banks.split(", "))) == 4 for banks, _ in told)
    assert picture.svg.count('class="x"') == 32 + 16  # all that is read, and the banks that deliver twice
    assert show.padded_tile(128, 16, 1, 2).svg.count('class="x"') == 0


def test_the_sliders_move_padding_swizzle_and_unit() -> None:
    explorer = widgets.conflicts_of_ldmatrix(64)
    assert explorer.set(padding=16, unit=2) == show.padded_tile(64, 16, 1, 2)
    assert explorer.set(swizzle="XOR mod 4", padding=0) == show.padded_tile(64, 0, 4, 2)
    assert widgets.conflicts_of_ldmatrix(128, swizzle=8).picture == show.padded_tile(128, 0, 8)
    with pytest.raises(TcemuError, match="it takes none, XOR mod 2 or XOR mod 4"):
        explorer.set(swizzle="XOR mod 8")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((100,), "rows must have 32, 64, 128 or 256 bytes here; got 100"),
        ((128, 8), "the padding must be a multiple of 16 bytes"),
        ((128, 144), "up to 128; got 144"),
        ((64, 0, 8), "a swizzle swaps 1, 2 or 4 of the 4 units of a row; got 8"),
        ((64, 0, 1, 3), "unit 3: the ldmatrix.x4 reads it and the next one, so it is 0 to 2"),
    ],
)
def test_rows_that_cannot_be_drawn_are_refused(given: tuple[int, ...], words: str) -> None:
    with pytest.raises(TcemuError, match=words):
        show.padded_tile(*given)


# ---------------------------------------------------------------------------------------------- one element


@pytest.mark.parametrize("major", ["K", "MN"])
@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_the_sum_gives_the_address_of_the_element(swizzle: int, major: str) -> None:
    tile = Descriptor.for_tile("f16", 64, 64, swizzle=swizzle, major=major, start=4096)  # type: ignore[arg-type]
    for mn, k in ((0, 0), (41, 20), (63, 63)):
        words = show.shared_tile(tile, "f16", 64, 64, major, at_mn=mn, at_k=k, lines=20).description  # type: ignore[arg-type]
        sum_ = rf"Byte address of mn = {mn}, k = {k}: (.*?) = (\d+)(?:; after the swizzle (\d+))? = (0x\w+)\. "
        match = re.match(sum_, words)
        assert match is not None
        terms, before, after, address = match.groups()
        assert eval(terms.replace("mod", "%").replace("div", "//")) == int(before)  # noqa: S307 - our own text
        assert int(after or before) == int(address, 16) == tile.address(mn, k, "f16", major)  # type: ignore[arg-type]


def test_the_lines_around_the_element_are_drawn() -> None:
    tile = Descriptor.for_tile("f16", 64, 64, swizzle=128)
    for mn, above, below in ((0, 0, 44), (31, 21, 23), (63, 44, 0)):
        picture = show.shared_tile(tile, "f16", 64, 64, at_mn=mn, at_k=0, lines=20)
        assert picture.svg.count('class="x"') == 1
        for hidden, where in ((above, "above"), (below, "below")):
            assert (f"{hidden} more lines {where}." in picture.svg) == bool(hidden)


def test_the_sliders_reach_every_element_and_field() -> None:
    explorer = widgets.address_of_an_element("f16", 64, 64, at_mn=9, at_k=20)
    assert "mn = 9, k = 20" in explorer.picture.description
    for major in ("MN", "K"):
        for swizzle in ("none", "32 bytes", "64 bytes", "128 bytes"):
            explorer.set(major=major, swizzle=swizzle)
            assert "mn = 63, k = 63" in explorer.set(at_mn=63, at_k=63).description
    for sbo, told in ((256, "= 402 = 0x192"), (2048, "(9 div 8) * 2048 + (9 mod 8) * 2 + (9 div 8) * 128")):
        tile = Descriptor(0, 128, sbo)
        assert told in show.shared_tile(tile, "f16", 64, 16, at_mn=9, at_k=9, lines=20).description
    with pytest.raises(TcemuError, match="swizzle cannot be '96'"):
        widgets.address_of_an_element(swizzle=96)
