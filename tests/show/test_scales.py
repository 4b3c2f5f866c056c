"""Scale factors: the byte that a picture names scales the block that it names, and nothing else."""

import re

import numpy as np
import pytest

import tcemu
from tcemu import show
from tcemu.errors import TcemuError
from tcemu.show import widgets

#: One, two and four scales for each row and column, and a sparse form.
OPCODES = {
    "1X": "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0",
    "2X": "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0",
    "4X": "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
}
SPARSE = (
    "mma.sp::ordered_metadata.sync.aligned.m16n8k128.row.col.kind::mxf4.block_scale.scale_vec::2X"
    ".f32.e2m1.e2m1.f32.ue8m0"
)
TITLE = re.compile(r"(?:row|column) (\d+), k = (\d+) to (\d+) has its scale in byte (\d) of lane (\d+)")


def _places(picture: show.Picture) -> list[int]:
    match = TITLE.search(picture.title)
    assert match is not None
    return [int(number) for number in match.groups()]


@pytest.mark.parametrize("role", ["a", "b"])
@pytest.mark.parametrize("name", OPCODES)
def test_the_byte_it_names_doubles_the_block_and_nothing_else(name: str, role: str) -> None:
    """A and B are ones, so that D is k, and one scale of 2 among ones adds the block's k to one row or column."""
    found = tcemu.parse(OPCODES[name], target="sm_120a")
    (m, n, k), scale = found.shape, found.types["a"]
    one, two = (0x38, 0x40) if found.words["stype"] == "ue4m3" else (127, 128)
    count, fragment = found.facts.scales, found.fragments[f"scale_{role}"]
    for byte_id, thread, line, block in ((0, 0, 0, 0), (4 - count, fragment.shape[0] - 1, 7, count - 1)):
        picture = show.scales(found, role, byte_id, thread, line, block)
        told, first, last, byte, lane = _places(picture)
        assert (told, first, last) == (line, block * k // count, (block + 1) * k // count - 1)
        matrices = {"a": np.ones((m, k)), "b": np.ones((k, n))}
        registers = {"a": np.full((32, 4), one, np.uint8), "b": np.full((32, 4), one, np.uint8)}
        registers[role][lane, byte] = two
        a, b = (found.fragments[each].pack(scale.matrix(scale.encode(matrices[each]))) for each in "ab")
        c = found.fragments["c"].pack(np.zeros((m, n), np.float32))
        held = {each: array.view(np.uint32)[:, 0] for each, array in registers.items()}
        ids = dict.fromkeys("ab", (0, 0)) | {role: (byte_id, thread)}
        scales = (held["a"], ids["a"], held["b"], ids["b"])
        d = found.fragments["d"].unpack(tcemu.run(found, a, b, c, *scales, target="sm_120a"))
        expected = np.full((m, n), float(k))
        expected[line if role == "a" else slice(None), line if role == "b" else slice(None)] += k // count
        assert np.array_equal(d, expected)


def test_the_marked_scale_is_shown_as_a_number() -> None:
    opcode, scales = OPCODES["2X"], np.full((16, 2), 127, np.uint8)
    scales[11, 1] = 130
    registers = tcemu.microscaling.scale_registers(scales, opcode, "a", 2, 1)
    assert "which is 0x82 = 8, scales row 11" in show.scales(opcode, "a", 2, 1, 11, 1, registers).description


def test_a_block_of_a_sparse_form_is_counted_in_the_dense_k() -> None:
    assert "k = 64 to 127 has its scale" in show.scales(SPARSE, block=1).title


@pytest.mark.parametrize("name", OPCODES)
def test_every_position_of_the_sliders_is_drawn(name: str) -> None:
    explorer = widgets.scales_of_a_block(OPCODES[name], line=15)
    for role in "ba":
        explorer.set(role=role)
        highs = explorer._highs()
        explorer.set(**highs)
        assert explorer.picture == show.scales(OPCODES[name], role, **{key: int(top) for key, top in highs.items()})


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"line": 16}, "row 16: A of .* has rows 0 to 15"),
        ({"role": "b", "line": 8}, "column 8: B of .* has columns 0 to 7"),
        ({"block": 2}, "block 2: .* blocks 0 to 1"),
        ({"byte_id": 1}, "the byte-id is 0 or 2"),
        ({"role": "c"}, "scales of 'a' and of 'b'; got 'c'"),
        ({"registers": np.zeros(16, np.uint32)}, r"one uint32 register per lane, \(32,\); got \(16,\)"),
        ({"instruction": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"}, "has no scales"),
    ],
)
def test_what_cannot_be_drawn_is_refused(how: dict[str, object], words: str) -> None:
    with pytest.raises(TcemuError, match=words):
        show.scales(**{"instruction": OPCODES["2X"]} | how)  # type: ignore[arg-type]
