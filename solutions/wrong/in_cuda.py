"""Wrong answers in CUDA C++: the solutions with one thing changed, and words that the diagnosis contains."""

import json
from pathlib import Path

_SOLUTIONS = Path(__file__).resolve().parent.parent


def solution(lesson, name):
    """The cell of a solution, without its marks."""
    for path in _SOLUTIONS.glob(f"{lesson}_*.ipynb"):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["id"] == name:
                lines = "".join(cell["source"]).split("\n")
                return "\n".join(line for line in lines if "### " not in line)
    raise LookupError(name)


def changed(lesson, name, *changes):
    """The solution with each change in turn: what is replaced, by what, and words of the diagnosis."""
    text = solution(lesson, name)
    for old, new, words in changes:
        if old not in text:
            raise LookupError(f"{name} has no {old}")
        yield text.replace(old, new), words


WRONG = {
    name: list(changed(lesson, name, *changes))
    for lesson, name, *changes in [
        (
            "05",
            "ldmatrix_of_b",
            (".x2.trans.", ".x2.", "not transposed"),
            ("    __syncwarp();\n", "", "bar.warp.sync"),
            ("lane % 16", "lane % 8", "column = 1"),
        ),
        (
            "05",
            "sum_in_two_stages",
            ("__pipeline_wait_prior(1)", "__pipeline_wait_prior(2)", "cp.async"),
            ("__pipeline_wait_prior(1)", "__pipeline_wait_prior(0)", "7 full waits"),
            ("row < 8; row++", "row < 7; row++", "last row is missing"),
            (
                "        if (row + 1 < 8) __pipeline_memcpy_async(&stage[(row + 1) % 2][column], &x[32 * (row + 1) + column], 4);\n        __pipeline_commit();",
                "        if (row + 1 < 8) {\n            __pipeline_memcpy_async(&stage[(row + 1) % 2][column], &x[32 * (row + 1) + column], 4);\n            __pipeline_commit();\n        }",
                "cp.async",
            ),
        ),
        (
            "07",
            "weights_of_s4",
            (" ^ 0x88888888;  // two's complement becomes the number plus 8\n", ";\n", "offset of 8"),
            ("word >> 4 * i", "word >> (28 - 4 * i)", "order of the eight"),
            ("__float2half(1032)", "__float2half(1024)", "8 too large"),
        ),
        (
            "07",
            "dot_of_signs",
            ("128 - 2 * differ", "differ", "signs that differ"),
            ("128 - 2 * differ", "128 - differ", "signs that agree"),
            ("i < 4", "i < 3", "dots at"),
            ("^ b[", "| b[", "You used | where ^ belongs"),
            ("128 - 2 * differ", "2 * differ - 128", "has the wrong sign"),
            ("128 - 2 * differ", "64 - differ", "half of it"),
            ("differ +=", "differ =", "only the last word"),
            ("int differ = 0;", "int differ;", "dots at"),
        ),
        (
            "08",
            "metadata_of_row",
            ("2 * kept++", "2 * (1 - kept++)", "two indices of each chunk are swapped"),
            ("4 * chunk + 2 * kept++", "2 * chunk + 2 * kept++", "metadata at"),
            ("chunk < 8", "chunk < 7", "metadata at"),
            ("!= 0) word", "> 0) word", "metadata at"),
        ),
        (
            "09",
            "pairs_of_e4m3",
            (
                '"f"(x[2 * threadIdx.x + 1]), "f"(x[2 * threadIdx.x])',
                '"f"(x[2 * threadIdx.x]), "f"(x[2 * threadIdx.x + 1])',
                "upper half",
            ),
            ("e4m3x2", "e5m2x2", "pairs at"),
            ("pairs[threadIdx.x] = pair", "pairs[2 * threadIdx.x] = pair", "outside"),
        ),
        (
            "10",
            "descriptors_of_tiles",
            (
                "u64(lbo[i] >> 4) << 16 | u64(sbo[i] >> 4) << 32",
                "u64(sbo[i] >> 4) << 16 | u64(lbo[i] >> 4) << 32",
                "LBO and SBO are swapped",
            ),
            (
                "== 128 ? 1 : swizzle[i] == 64 ? 2 : swizzle[i] == 32 ? 3",
                "== 128 ? 3 : swizzle[i] == 64 ? 2 : swizzle[i] == 32 ? 1",
                "swizzle field",
            ),
            ("start[i] >> 4", "start[i]", "Only bits"),
        ),
        (
            "10",
            "swizzle_of_128",
            (">> 7 & 7", ">> 7 & 3", "swizzle of 64"),
            ("(at >> 7 & 7) << 4", "at >> 7 << 4", "not masked"),
            ("at >> 7", "at >> 4", "Only bits 4 to 6"),
        ),
        (
            "12",
            "mma_in_ptx",
            ('"r"(A[1]), "r"(A[2])', '"r"(A[2]), "r"(A[1])', "a1 and a2 are swapped"),
            ("word(b + 16 * g + 2 * t + 8)", "0u", "columns 0 to 7"),
            (
                "word(b + 16 * g + 2 * t), word(b + 16 * g + 2 * t + 8)",
                "word(b + 16 * g + 2 * t + 8), word(b + 16 * g + 2 * t)",
                "b0 and b1 are swapped",
            ),
            ("D[4] = {0, 0, 0, 0}", "D[4]", "nothing had been assigned"),
            ('"+f"(D[0]), "+f"(D[1])', '"+f"(D[1]), "+f"(D[0])', "row // 8 = 0"),
        ),
        (
            "11",
            "wgmma_in_ptx",
            ('    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");\n', "", "fence.proxy.async"),
            ('    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");\n', "", "wait_group"),
            ('    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");\n', "", "commit"),
            ('    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");\n', "", "wgmma.fence"),
            ("setp.ne.s32 add, %6, 0", "setp.ne.s32 add, %6, %6", "Only the last 16"),
            ("step < 4", "step < 1", "Only the first 16"),
            ("(i % 8 ^ row % 8)", "i % 8", "without the swizzle"),
            ("setp.ne.s32 add, %6, 0", "setp.eq.s32 add, 0, 0", "nothing had been assigned"),
        ),
        (
            "13",
            "row_maxima",
            ("distance < 4", "distance < 2", "one shuffle is missing"),
            ("distance < 4", "distance < 1", "lane 4 g alone"),
            ("distance = 1; distance < 4", "distance = 4; distance < 16", "With distances 4 and 8"),
            ("distance = 1; distance < 4", "distance = 8; distance < 32", "With distances 8 and 16"),
            ("distance = 1; distance < 4", "distance = 4; distance < 32", "With distances 4, 8 and 16"),
            ("distance < 4", "distance < 32", "all 32 lanes"),
            (
                "c[4 * lane + 1]), lower = fmaxf(c[4 * lane + 2]",
                "c[4 * lane + 2]), lower = fmaxf(c[4 * lane + 1]",
                "maxima at",
            ),
        ),
        (
            "16",
            "rows_to_fragment",
            (
                '"r"(columns) : "memory");\n    for',
                '"r"(columns + (16 << 16)) : "memory");\n    for',
                "second half of the lanes",
            ),
            (
                '    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" :: "r"(columns));\n',
                "",
                "Free what",
            ),
            ("    __syncthreads();\n", "", "alloc"),
        ),
        (
            "17",
            "scales_by_cp",
            ("tile[4 * (row % 32) + warp]", "tile[row]", "row after row"),
            ('    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");\n', "", "fence.proxy.async"),
            ("    wait(in_shared(&bar), 0);\n", "", "tcgen05.commit"),
            ("warp == 0 ? r[0] : warp == 1 ? r[1] : warp == 2 ? r[2] : r[3]", "r[0]", "rows 0 to 31"),
            ("columns + (32 * warp << 16)", "columns", "lanes of Tensor Memory"),
            ("in_shared(tile) >> 4 |", "in_shared(tile) |", "outside"),
        ),
        (
            "17",
            "tcgen05_in_ptx",
            ('"r"(step), "r"(0x08080010)', '"r"(0), "r"(0x08080010)', "Only the last 16"),
            ("step < 4", "step < 1", "Only the first 16"),
            ('    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");\n', "", "fence.proxy.async"),
            ("    wait(in_shared(&bar), 0);\n", "", "tcgen05.commit"),
            ("unit ^ row % 8", "unit", "swizzle"),
            ("columns + (32 * warp << 16) + at", "columns + at", "lanes of Tensor Memory"),
        ),
    ]
}
