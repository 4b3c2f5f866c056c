"""Exercises that may be answered in Python or in CUDA C++: both are right, and the same mistake gets the same words."""

import re

import pytest

import tcemu
from tcemu.cells import cuda_functions
from tcemu.course import exercise, judged
from tcemu.course.bank import exercises
from tcemu.course.cards import card

pytestmark = pytest.mark.skipif(not tcemu.cuda.available(), reason="NVRTC is not installed")

LANES = "int g = threadIdx.x / 4, t = threadIdx.x % 4;"
WORD = "#include <cuda_fp16.h>\n#define WORD(x) *(const unsigned*)&(x)\n"
ANSWERS = {
    "where_of_a": """__device__ int low(int x) { return x % 8; }
__device__ void where_of_a(int row, int column, int& lane, int& reg) {
    lane = 4 * low(row) + low(column) / 2;
    reg = column / 8 * 2 + row / 8;
}""",
    "what_is_in_a": """inline __device__ void what_is_in_a(unsigned lane, unsigned slot, int& row, int& column) {
    row = lane / 4 + 8 * (slot & 1);
    column = lane % 4 * 2 + slot / 2 * 8;
}""",
    "where_of_b": """template <class T> __device__ void where_of_b(T row, T column, T& lane, T& slot) {
    lane = 4 * column + row % 8 / 2;
    slot = row / 8;
}""",
    "swizzled_address": """#define LINE 128
static __device__ unsigned swizzled_address(unsigned at, unsigned bytes) {
    return bytes ? at ^ (at / LINE & bytes / 16 - 1) << 4 : at;
}""",
    "address_in_tile": """__device__ int address_in_tile(int start, int row, int column) {
    const char* tile = (const char*)0 + start + 128 * row + 2 * column;
    unsigned at = (unsigned)(unsigned long long)tile;
    return at ^ at >> 3 & 0x70;
}""",
    "start_of_k_step": """
__device__ int start_of_k_step(int swizzle, int step) {
    switch (swizzle) {
        case 0: return 2 * 1024 * step;
        case 32: return 64 * 32 * step;
        case 64: return step / 2 * 64 * 64 + step % 2 * 32;
    }
    return 32 * step;
}""",
    "lane_of_metadata": """__device__ void lane_of_metadata(int row, int chunk, int selector, int& lane, int& group) {
    lane = row % 8 * 4 + 2 * selector + chunk / 4;
    group = row / 8 * 4 + chunk % 4;
}""",
    "phases_of_a_stage": """__device__ void phases_of_a_stage(int step, int stages, int& stage, int& full, int& empty) {
    stage = step % stages;
    full = step / stages % 2;
    empty = 1 - full;
}""",
    "dot_from_popc": "__device__ auto dot_from_popc(int k, int ones) { return k - 2 * ones; }",
    "wmma_gemm": """#include <mma.h>
using namespace nvcuda;
__global__ void wmma_gemm(const half* a, const half* b, float* c) {
    int warp = threadIdx.x / 32, row = 32 * blockIdx.y + 16 * (warp / 2), column = 32 * blockIdx.x + 16 * (warp % 2);
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int k = 0; k < 48; k += 16) {
        wmma::load_matrix_sync(left, a + 48 * row + k, 48);
        wmma::load_matrix_sync(right, b + 48 * column + k, 48);
        wmma::mma_sync(sum, left, right, sum);
    }
    wmma::store_matrix_sync(c + 64 * row + column, sum, 64, wmma::mem_row_major);
}""",
    "row_major_b": WORD
    + """
__device__ unsigned pair(const half* b, int k, int n) {
    const unsigned short* x = (const unsigned short*)b;
    return x[8 * k + n] | x[8 * (k + 1) + n] << 16;
}
__global__ void row_major_b(const half* a, const half* b, float* out) {
    """
    + LANES
    + """
    float d[4] = {};
    for (int k = 0; k < 32; k += 16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(WORD(a[32 * g + k + 2 * t])), "r"(WORD(a[32 * (g + 8) + k + 2 * t])),
              "r"(WORD(a[32 * g + k + 2 * t + 8])), "r"(WORD(a[32 * (g + 8) + k + 2 * t + 8])),
              "r"(pair(b, k + 2 * t, g)), "r"(pair(b, k + 2 * t + 8, g)));
    for (int i = 0; i < 4; i++) out[8 * (g + 8 * (i / 2)) + 2 * t + i % 2] = d[i];
}""",
    "product_of_64": WORD
    + """
__global__ void product_of_64(const signed char* a, const signed char* b, int* d) {
    """
    + LANES
    + """
    int s[4] = {};
    for (int k = 4 * t; k < 64; k += 32)
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};" : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3])
            : "r"(WORD(a[64 * g + k])), "r"(WORD(a[64 * (g + 8) + k])), "r"(WORD(a[64 * g + k + 16])),
              "r"(WORD(a[64 * (g + 8) + k + 16])), "r"(WORD(b[64 * g + k])), "r"(WORD(b[64 * g + k + 16])));
    for (int i = 0; i < 4; i++) d[8 * (g + 8 * (i / 2)) + 2 * t + i % 2] = s[i];
}""",
    "eight_rows": WORD
    + """
__global__ void eight_rows(const half* a, const half* b, float* d) {
    """
    + LANES
    + """
    float s[4] = {};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};" : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
        : "r"(WORD(b[16 * g + 2 * t])), "r"(WORD(b[16 * (g + 8) + 2 * t])), "r"(WORD(b[16 * g + 2 * t + 8])),
          "r"(WORD(b[16 * (g + 8) + 2 * t + 8])), "r"(WORD(a[16 * g + 2 * t])), "r"(WORD(a[16 * g + 2 * t + 8])));
    for (int i = 0; i < 4; i++) d[16 * (2 * t + i % 2) + g + 8 * (i / 2)] = s[i];
}""",
}


def said(name, text):
    return judged(exercise(name), (cuda_functions(f"%%cuda\n{text}") or {})[name], "ada")


def test_every_exercise_for_both_languages_has_an_answer_here():
    both = {name for name, row in exercises().items() if len(getattr(row.judge, "languages", ())) > 1}
    assert both == set(ANSWERS)
    for name in both:
        assert re.search(rf"__global__ void {name}\(|__device__ \w+ {name}\(", card(exercise(name)))


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_in_cuda_is_right(name):
    verdict = said(name, ANSWERS[name])
    assert verdict.state == "right", verdict.says


WRONG = {
    "where_of_a": ("column / 8 * 2 + row / 8", "column / 8 * 2", "The register does not depend on row // 8"),
    "what_is_in_a": ("8 * (slot & 1)", "8 * (slot / 2)", "another part of register belongs there"),
    "where_of_b": ("lane = 4 * column + row % 8 / 2", "lane = 4 * (row % 8) + column / 2", "This is the map of A."),
    "swizzled_address": ("bytes / 16 - 1", "7", "You XOR three bits for every swizzle"),
    "address_in_tile": (">> 3", ">> 4", "which is wrong"),
    "start_of_k_step": ("64 * 32 * step", "32 * step", "which is wrong"),
    "lane_of_metadata": ("2 * selector", "selector", "selector"),
    "phases_of_a_stage": ("1 - full", "full", "The producer"),
    "dot_from_popc": ("2 * ones", "ones", "it counts twice"),
    "wmma_gemm": ("wmma::col_major", "wmma::row_major", "You loaded B as row-major"),
    "row_major_b": ("<< 16", "<< 8", "out at [0, 0]"),
    "product_of_64": ("k < 64", "k < 32", "Only the first 32 columns of A"),
    "eight_rows": ("16 * (2 * t + i % 2) + g + 8 * (i / 2)", "8 * (g + 8 * (i / 2)) + 2 * t + i % 2", "the transpose"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_mistake_in_cuda_is_wrong(name):
    old, new, words = WRONG[name]
    assert old in ANSWERS[name]
    verdict = said(name, ANSWERS[name].replace(old, new))
    assert verdict.state == "wrong"
    assert words in verdict.says + verdict.mistake
