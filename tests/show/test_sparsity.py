"""Sparsity: the picture names the bits that decide what is kept, for every chunk and in both directions."""

import re

import numpy as np
import pytest

import tcemu
from tcemu import show, sparse
from tcemu.errors import TcemuError
from tcemu.show import widgets

#: One of each layout of the metadata: 2:4 wide and narrow, short and long; 1:2; 4:8 by pairs.
OPCODES = {
    "f16": "m16n8k32.row.col.f32.f16.f16.f32",
    "f16, short": "m16n8k16.row.col.f32.f16.f16.f32",
    "tf32": "m16n8k16.row.col.f32.tf32.tf32.f32",
    "s8": "m16n8k64.row.col.s32.s8.s8.s32",
    "s8, short": "m16n8k32.row.col.s32.s8.s8.s32",
    "s4": "m16n8k128.row.col.s32.s4.s4.s32",
}
TITLE = re.compile(r"row (\d+), chunk (\d+) of A has its metadata in lane (\d+), bits (\d+):(\d+)")
ONES = np.ones((16, 32), np.float16)
F16 = f"mma.sp::ordered_metadata.sync.aligned.{OPCODES['f16']}"


def _pruned(name: str) -> tuple[tcemu.Instruction, np.ndarray, np.ndarray]:
    """An instruction, patterns of a pruned matrix without a zero among the kept ones, and their metadata."""
    found = tcemu.parse(f"mma.sp::ordered_metadata.sync.aligned.{OPCODES[name]}")
    form, rng = found.types["a"], np.random.default_rng(8)
    dense = form.matrix(form.encode(rng.integers(1, 7, (16, found.shape.k)).astype(float)))
    dense = sparse.prune(dense, found)
    return found, dense, sparse.compress(dense, found)[1]


@pytest.mark.parametrize("name", OPCODES)
def test_the_bits_it_names_decide_about_that_chunk_and_no_other(name: str) -> None:
    found, dense, metadata = _pruned(name)
    values, _ = sparse.compress(dense, found)
    size = found.shape.k // found.fragments["e"].shape[2]
    for row, chunk in ((0, 0), (9, 1), (15, found.fragments["e"].shape[2] - 1)):
        match = TITLE.search(show.sparsity(found, dense, metadata, row, chunk).title)
        assert match is not None
        told_row, told_chunk, lane, high, low = map(int, match.groups())
        assert (told_row, told_chunk, high) == (row, chunk, low + 3)
        now = int(metadata[lane]) >> low & 15
        other = next(code for code in found.facts.pattern.positions if code != now)
        changed = metadata.copy()
        changed[lane] = int(metadata[lane]) & ~(15 << low) & 0xFFFFFFFF | other << low
        before, after = (sparse.decompress(values, each, found) for each in (metadata, changed))
        rows, columns = np.nonzero(before != after)
        assert set(rows) == {row}
        assert set(columns // size) == {chunk}


@pytest.mark.parametrize("name", OPCODES)
def test_it_says_which_elements_are_pruned(name: str) -> None:
    found, dense, metadata = _pruned(name)
    words = show.sparsity(found, dense, metadata, 6, 2).description.partition(". ")[0]
    numbers = found.types["a"].decode(found.types["a"].patterns(dense, "A"))
    size = found.shape.k // found.fragments["e"].shape[2]
    fates = ["(pruned)" in each for each in words.split(": ")[1].split(", ")]
    assert fates == (numbers[6, 2 * size : 3 * size] == 0).tolist()


@pytest.mark.parametrize("name", OPCODES)
def test_bits_and_chunks_lead_to_each_other(name: str) -> None:
    found, dense, metadata = _pruned(name)
    lanes = widgets.metadata_of_a_lane(found, dense, metadata, lane=5, group=2)
    match = TITLE.search(lanes.picture.title)
    assert match is not None
    row, chunk, *where = map(int, match.groups())
    assert where == [5, 11, 8]
    if "Selector 0 " in lanes.picture.description:
        assert widgets.metadata_of_a_chunk(found, dense, metadata, row=row, chunk=chunk).picture == lanes.picture


def test_another_selector_has_its_metadata_in_other_lanes() -> None:
    metadata = np.full(32, 0x44444444, np.uint32)
    for chosen, lanes in ((0, "0 to 1, 4 to 5, 8 to 9"), (1, "2 to 3, 6 to 7, 10 to 11")):
        words = show.sparsity(F16, ONES, metadata, selector=chosen).description
        assert f"Selector {chosen} uses 16 lanes: {lanes}" in words


def test_bits_that_are_not_legal_keep_nothing() -> None:
    words = show.sparsity(F16, ONES, np.zeros(32, np.uint32)).description
    assert words.startswith("Row 0, chunk 0, k = 0 to 3: 1 (pruned), 1 (pruned), 1 (pruned), 1 (pruned).")
    assert "metadata 0000: not legal here" in words


def test_a_sparse_wgmma_has_128_lanes() -> None:
    opcode = "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16"
    picture = show.sparsity(opcode, np.ones((64, 32), np.float16), np.full(128, 0x44444444, np.uint32), 63, 7)
    assert picture.title.endswith("in lane 125, bits 31:28")


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"row": 16}, "row 16: .* has rows 0 to 15"),
        ({"chunk": -1}, "chunk -1: .* has chunks 0 to 7"),
        ({"selector": 2}, "the selector is an immediate, 0 or 1"),
        ({"dense": ONES.T}, r"the dense A has shape \(16, 32\)"),
        ({"metadata": np.zeros(32, np.int8)}, "metadata is one uint32 register per lane"),
        ({"instruction": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"}, "is dense"),
    ],
)
def test_what_cannot_be_drawn_is_refused(how: dict[str, object], words: str) -> None:
    with pytest.raises(TcemuError, match=words):
        show.sparsity(**{"instruction": F16, "dense": ONES, "metadata": np.zeros(32, np.uint32)} | how)  # type: ignore[arg-type]


def test_a_slider_that_is_not_there_is_refused() -> None:
    with pytest.raises(TcemuError, match="no control is called 'lane'; there are row and chunk"):
        widgets.metadata_of_a_chunk(F16, ONES, np.zeros(32, np.uint32), lane=3)
