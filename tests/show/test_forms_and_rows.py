"""Tables of forms and targets, rows of a tile in shared memory, and the sliders around registers and rows."""

import re

import numpy as np
import pytest
from rows import rows

import tcemu
from tcemu import show
from tcemu.errors import TcemuError
from tcemu.instructions.catalogue import catalogue
from tcemu.show import widgets

MMA = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
LOAD = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
LANE = np.arange(32)
RNG = np.random.default_rng(8)
A, B = RNG.normal(size=(16, 16)).astype(np.float16), RNG.normal(size=(16, 8)).astype(np.float16)
C = np.zeros((16, 8), np.float32)
REGISTERS = [MMA.fragments[role].pack(matrix) for role, matrix in (("a", A), ("b", B), ("c", C))]
ROW, UNIT = np.indices((16, 8))


# ---------------------------------------------------------------------------------------------- tables


@rows("row", show.shape_table("mma").rows, lambda row: f"{row[0]} {row[1]}")
def test_registers_follow_from_the_shape_and_the_width(row):
    """An operand's bits are shared by 32 lanes with registers of 32 bits, or of 64 for f64."""
    shape, _, width, a, b, results, _ = row
    m, n, k = map(int, re.findall(r"\d+", shape)[:3])
    bits = int(width.split()[0])
    products = 4 if "4 products" in shape else 1
    register = 32 * max(32, bits)
    assert (int(a), int(b)) == (products * m * k * bits // register, products * k * n * bits // register)
    for count, form in re.findall(r"(\d) of (\w+)", results):
        size = {"f16": 16, "f64": 64}.get(form, 32)
        assert int(count) == products * m * n * size // (32 * max(32, size))


def test_the_table_of_shapes_has_every_form_of_the_manual() -> None:
    """PTX ISA 9.1, 9.7.14.5.14: shapes by type, as in the table of 9.7.14.2."""
    table = show.shape_table("mma").rows
    found = {(row[0].split(",")[0], name) for row in table for name in re.findall(r"\w+", row[1])}
    for names, shapes in {
        "f16": "m8n8k4 m16n8k8 m16n8k16",
        "bf16": "m16n8k8 m16n8k16",
        "tf32": "m16n8k4 m16n8k8",
        "f64": "m8n8k4 m16n8k4 m16n8k8 m16n8k16",
        "s8 u8": "m8n8k16 m16n8k16 m16n8k32",
        "s4 u4": "m8n8k32 m16n8k32 m16n8k64",
        "b1": "m8n8k128 m16n8k128 m16n8k256",
        "e4m3 e5m2": "m16n8k16 m16n8k32",
        "e2m1 e2m3 e3m2": "m16n8k32",
    }.items():
        for name in names.split():
            assert {shape for shape, form in found if form == name} == set(shapes.split()), name


def test_a_family_without_registers_has_no_shapes() -> None:
    with pytest.raises(TcemuError, match="ldmatrix has no forms with A, B and D in registers"):
        show.shape_table("ldmatrix")


def test_legal_opcodes_say_where_and_others_why() -> None:
    wgmma = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
    table = show.legal_table([str(MMA), wgmma, "mma.sync.aligned.m8n8k4.row.col.f32.bf16.bf16.f32"], target="sm_90")
    assert table.rows[0] == (str(MMA), "yes: PTX 7.0, sm_80 or later")
    assert table.rows[1][1].startswith("no: it does not exist on sm_90: it needs sm_90a")
    assert table.rows[2][1].startswith("no: m8n8k4 multiplies f16 and f64 only.")
    with pytest.raises(TcemuError, match="a list of strings"):
        show.legal_table(str(MMA))


def test_targets_have_as_many_forms_as_the_catalogue() -> None:
    (row,) = show.target_table(["sm_75"], ["mma", "wgmma"]).rows
    assert row == ("sm_75", str(len(catalogue("sm_75", family="mma"))), "none")
    with pytest.raises(TcemuError, match="a list of names"):
        show.target_table("sm_75")


# ---------------------------------------------------------------------------------------------- rows of a tile


@pytest.mark.parametrize(
    ("addresses", "says"),
    [
        (128 * ROW + 16 * UNIT, "8 wavefronts where 1 would do"),
        (144 * ROW + 16 * UNIT, "1 wavefront, no conflict"),
        (128 * ROW + 16 * (UNIT ^ ROW % 8), "1 wavefront, no conflict"),
        (128 * ROW + 16 * (UNIT ^ ROW % 2), "4 wavefronts where 1 would do"),
    ],
)
def test_rows_say_what_ldmatrix_takes(addresses, says) -> None:
    for unit in range(8):
        for first in (0, 3, 8):
            picture = show.shared_rows(addresses, unit, first)
            assert picture.title == f"Unit {unit} of rows {first} to {first + 7}: {says}"


def test_every_row_is_told_with_its_banks() -> None:
    words = show.shared_rows(128 * ROW + 16 * (UNIT ^ ROW % 8), unit=5).description
    assert "row 3 at 0x1e0, banks 24 to 27" in words


@pytest.mark.parametrize(
    ("addresses", "options", "says"),
    [
        (ROW, {}, "a 16-byte unit is at a multiple of 16"),
        (128 * ROW - 16, {}, "multiple of 16"),
        (128 * ROW + 16 * (UNIT // 2), {}, "unit 1 of row 0 is at the address of another unit: 0"),
        (16 * np.arange(8), {}, r"integers \(rows, units\), 8 rows or more"),
        (128 * ROW + 16 * UNIT, {"unit": 8}, "the tile has 16 rows of 8 units; got unit 8 of the rows from 0 on"),
        (128 * ROW + 16 * UNIT, {"first": 9}, "of the rows from 9 on"),
    ],
)
def test_what_is_no_tile_is_refused(addresses, options, says) -> None:
    with pytest.raises(TcemuError, match=says):
        show.shared_rows(addresses, **options)


def test_rows_of_64_bytes_share_a_line() -> None:
    row, unit = np.indices((16, 4))
    assert show.shared_rows(64 * row + 16 * unit).title.endswith("4 wavefronts where 1 would do")
    assert show.shared_rows(64 * row + 16 * (unit ^ row % 4)).title.endswith("2 wavefronts where 1 would do")
    assert show.shared_rows(64 * row + 16 * (unit ^ row // 2 % 4), 3, 8).title.endswith("1 wavefront, no conflict")


# ---------------------------------------------------------------------------------------------- registers


def test_two_registers_are_exchanged() -> None:
    exchanged = widgets.swap_registers(MMA, *REGISTERS, first=1, second=2)
    wrong = np.vstack([np.hstack([A[:8, :8], A[8:, :8]]), np.hstack([A[:8, 8:], A[8:, 8:]])])
    before, after = (tcemu.matmul(np.ascontiguousarray(each), B, C, instruction=MMA) for each in (A, wrong))
    assert exchanged.picture == show.changes(before, after, cause="a1 and a2 are swapped")
    assert exchanged.set(first=3, second=3).title == "None of 128 elements of D changed: nothing is swapped"
    with pytest.raises(TcemuError, match="first cannot be 4"):
        exchanged.set(first=4)
    with pytest.raises(TcemuError, match="no control is called 'third'"):
        widgets.swap_registers(MMA, *REGISTERS, third=0)


def test_a_form_is_chosen_from_a_list() -> None:
    int8 = "mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32"
    forms = widgets.fragment_of_a_form([MMA, int8], lane=3)
    assert forms.picture == show.fragment_map(MMA.fragments["a"], lane=3)
    assert forms.set(form="m16n8k32 s8 x u8", lane=9) == show.fragment_map(tcemu.parse(int8).fragments["a"], lane=9)


def test_a_lane_names_another_row() -> None:
    addresses = 32 * (LANE % 16) + 16 * (LANE // 16)
    rows_ = widgets.row_from_elsewhere(LOAD, addresses, A.view(np.uint8).ravel(), MMA.fragments["a"], lane=17, unit=0)
    after = A.copy()
    after[1, 8:] = A[0, :8]  # lane 17 gives the right half of row 1
    assert rows_.picture == show.changes(A, after, "f16", "A", cause="lane 17 gives the address 0")
