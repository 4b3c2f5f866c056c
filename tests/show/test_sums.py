"""Pictures of sums on several targets, of errors along k, of the ends of s32 and of counted bits."""

import re

import numpy as np
import pytest

import tcemu
from tcemu import show
from tcemu.errors import IllegalInstruction, OperandError, TargetError
from tcemu.show import widgets
from tcemu.show.picture import Picture

BF16 = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
FP8 = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"
M8N8K4 = "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32"
S8 = "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
WGMMA = "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3"


def matrices(opcode: str, a: dict[int, float], b: float = 1, c: float = 0) -> list[np.ndarray]:
    """A, B and C of one row of terms, all multiplied by `b`."""
    found = tcemu.parse(opcode)
    m, n, k = found.shape
    types = found.types
    left, right = np.zeros((m, k), types["a"].dtype), np.full((k, n), b, types["b"].dtype)
    for place, term in a.items():
        left[0, place] = term
    return [left, right, np.full((m, n), c, types["c"].dtype)]


def test_each_target_has_its_sums_and_its_result() -> None:
    picture = show.one_output(BF16, matrices(BF16, {0: 1, 3: 2.0**-25, 15: -1}))
    assert picture.title == "D[0][0] of mma m16n8k16 on sm_80, sm_90a"
    # Fasi et al. 2021; an A100 keeps 24 bits of two sums of 8, an H100 25 bits of one
    assert picture.description == (
        "sm_80: 2 fused sums of 8 products, 24 bits kept, gives 0 (0x00000000). Sum 1 is cut below 2⁻²⁴, which "
        "truncates k 3. Sum 2 is cut below 2⁻²⁴, which truncates nothing. "
        "sm_90a: 1 fused sum of 16 products, 25 bits kept, gives "
        "≈ 2.98023224 × 10⁻⁸ (0x33000000). Sum 1 is cut below 2⁻²⁵, which truncates nothing."
    )
    cells = re.findall(r">(k \d+|sum|c)</text>", picture.svg)
    assert cells == ["k 0", "k 3", "sum", "k 15", "k 0", "k 3", "k 15"]


def test_c_stands_where_it_is_added() -> None:
    first = show.one_output(FP8, matrices(FP8, {0: 2, 2: 4}, c=3), targets=["sm_89"])
    last = show.one_output(FP8, matrices(FP8, {0: 2, 2: 4}, c=3), targets=["sm_90a"])
    assert re.findall(r">(k \d+|sum|c|\+)</text>", first.svg) == ["c", "k 0", "k 2", "sum"]
    assert re.findall(r">(k \d+|sum|c|\+)</text>", last.svg) == ["k 0", "sum", "k 2", "+", "c"]
    for picture in (first, last):
        assert "gives 9 (0x41100000)" in picture.description


def test_what_is_no_fused_sum_has_a_result_too() -> None:
    picture = show.one_output(M8N8K4, matrices(M8N8K4, {0: 1, 1: 2}), targets=["sm_70", "sm_90a"])
    assert picture.description.endswith("sm_90a: 1 chain of 4 f32 multiply-adds, and c, gives 3 (0x40400000).")
    assert re.findall(r">(k \d+|c)</text>", picture.svg) == ["k 0", "k 1", "k 0", "k 1"], "its terms are drawn"
    assert "rounded after every step" in picture.svg


def test_an_infinity_is_named() -> None:
    picture = show.one_output(BF16, matrices(BF16, {0: np.inf}), targets=["sm_90a"])
    assert "gives +∞ (0x7f800000). Sum 1: an infinite term." in picture.description


@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        ({"row": 16}, OperandError, "there are rows 0 to 15 and columns 0 to 7"),
        ({"matrices": [1, 2]}, OperandError, "the matrices must be a list of A, B and C"),
        ({"matrices": matrices(BF16, {})[::-1]}, OperandError, "a: expected an array of dtype bfloat16"),
        ({"matrices": matrices(BF16, {})[:1] * 2 + [0]}, OperandError, r"b must be a matrix of shape \(16, 8\)"),
        ({"targets": "sm_80"}, TargetError, "targets must be a list of names"),
        ({"targets": ["sm_75"]}, IllegalInstruction, "does not exist on sm_75"),
    ],
)
def test_what_cannot_be_drawn_is_refused(more: dict, error: type, words: str) -> None:
    given = {"matrices": matrices(BF16, {0: 1}), **more}
    with pytest.raises(error, match=words):
        show.one_output(BF16, **given)


def test_a_term_moves_along_k_and_shrinks() -> None:
    sums = widgets.term_of_a_sum(BF16, {0: 1, 15: -1}, k=3, halvings=24)
    assert "sm_80: 2 fused sums of 8 products, 24 bits kept, gives 0 " in sums.picture.description
    assert "gives ≈ 5.96046448 × 10⁻⁸" in sums.set(k=9).description.partition("sm_90a")[0]
    assert "gives 0 (0x00000000)" in sums.set(halvings=26).description.partition("sm_90a")[2]
    with pytest.raises(OperandError, match="no product at k = 16; k goes from 0 to 15"):
        widgets.term_of_a_sum(BF16, {16: 1})


def _after(picture: Picture) -> list[float]:
    return [float(found) for found in re.findall(r"is off by ([\d.e-]+), at most", picture.description)]


def test_promotion_is_what_numpy_adds() -> None:
    rng = np.random.default_rng(1)
    types = tcemu.parse(WGMMA).types
    A, B = rng.uniform(0, 1, (64, 512)).astype(types["a"].dtype), rng.uniform(0, 1, (512, 8)).astype(types["b"].dtype)
    exact = float(A[0].astype(float) @ B[:, 0].astype(float))
    halves = [tcemu.matmul(A[:, k : k + 256], B[k : k + 256], instruction=WGMMA)[0, 0] for k in (0, 256)]
    whole = tcemu.matmul(A, B, instruction=WGMMA)[0, 0]
    never, once = _after(widgets.promoted_sum(WGMMA, A, B, promotions=1).picture)
    assert never == pytest.approx(abs(float(whole) / exact - 1), rel=1e-3)
    assert once == pytest.approx(abs(float(halves[0] + halves[1]) / exact - 1), rel=1e-3)
    assert once < never


def test_lines_have_a_point_for_each_k() -> None:
    with pytest.raises(OperandError, match="1 to 3 lines, with one error for each of 2 values of k"):
        show.running_error([32, 64], {"a": [0.0]})


def test_names_of_lines_that_end_close_together_do_not_overlap() -> None:
    picture = show.running_error([1, 2], {"a": [0.0, 1.0], "b": [0.0, 1.0], "c": [0.0, 0.99]})
    ends = [float(y) for y in re.findall(r'y="([\d.]+)">[abc]: ', picture.svg)]
    assert len(ends) == 3
    assert min(abs(one - other) for one in ends for other in ends if one != other) >= 15
    assert len(set(ends)) == 3


def test_a_sum_beyond_s32_wraps_or_is_clamped() -> None:
    near = widgets.end_of_s32(S8, a=100, b=100)
    assert near.picture.description == (
        "The exact sum is 2147489647. Without .satfinite the result is −2147477649, with it 2147483647."
    )
    assert near.set(a=10).title == "2147479647 + 1000 fits into s32"
    with pytest.raises(OperandError, match="a cannot be 128"):
        widgets.end_of_s32(S8, a=128)
    with pytest.raises(OperandError, match=r"within 20,000 of 2147483647; got 0 and 1"):
        show.end_of_s32(0, 1, 1, 1)
    with pytest.raises(OperandError, match="a result must be an s32; got 2147483648"):
        show.end_of_s32(2**31 - 1, 1, 2**31, 0)


def test_ones_are_counted() -> None:
    words = widgets.pair_of_words(0xF0F0A5C3, 0xF1F0A5C7, bit=31)
    assert words.picture.title == "popc(a xor b) = 3"  # bits 24 and 2 differ, and the flipped one
    assert words.set(operation="and").title == "popc(a and b) = 15"  # a has 16 ones
    for wrong, text in (((1 << 32, 0), "a must be a word of 32 bits"), ((0, 0, "or"), "operation must be xor or and")):
        with pytest.raises(OperandError, match=text):
            show.popcount(*wrong)
