"""Wrong answers to the exercises of notebook 05, with words that the diagnosis must contain."""

from typing import Any

import numpy as np

X4 = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
STORE = "stmatrix.sync.aligned.m8n8.x4.shared.b16"
MOVE = "movmatrix.sync.aligned.m8n8.trans.b16"

# ---------------------------------------------------------------------------------------------- bytes_after_trans


def transposed_bytes(lane: int, byte: int) -> tuple[int, int]:
    return (4 * (lane % 4) + byte) % 8, lane // 4


def beyond_the_rows(lane: int, byte: int) -> tuple[int, int]:
    return 4 * (lane % 4) + byte, lane // 4


def not_transposed(lane: int, byte: int) -> tuple[int, int]:
    return lane // 4, 4 * (lane % 4) + byte


def bytes_exchanged(lane: int, byte: int) -> tuple[int, int]:
    return 2 * (lane % 4) + byte // 2, 2 * (lane // 4) + 1 - byte % 2


def bytes_of_two_rows(lane: int, byte: int) -> tuple[int, int]:
    return 2 * (lane % 4) + byte % 2, 2 * (lane // 4) + byte // 2


# ---------------------------------------------------------------------------------------------- place_of_unit


def not_swizzled(row: int, unit: int) -> int:
    return 32 * row + 16 * unit


def row_mod_2(row: int, unit: int) -> int:
    return 32 * row + 16 * (unit ^ row % 2)


def padded(row: int, unit: int) -> int:
    return 48 * row + 16 * unit


def too_many_bits(row: int, unit: int) -> int:
    return 32 * row + 16 * (unit ^ row // 4 % 4)


def units_not_bytes(row: int, unit: int) -> int:
    return 2 * row + (unit ^ row // 4 % 2)


def by_columns(row: int, unit: int) -> int:
    return 16 * (32 * unit + row)


# ---------------------------------------------------------------------------------------------- transpose_16


def _transpose(warp: Any, x: Any, y: Any, *, move: bool = True, swap: bool = True, turn: bool = True) -> None:
    g, t = warp.laneid // 4, warp.laneid % 4
    for down in (0, 8):
        for right in (0, 8):
            matrix = warp.ld_global(x.at(down + g, right + 2 * t))
            turned = warp.run(MOVE, matrix)
            row, column = (right, down) if swap else (down, right)
            warp.st_global(y.at(row + g, column + 2 * t), turned if turn else matrix)


def blocks_stay(warp: Any, x: Any, y: Any) -> None:
    _transpose(warp, x, y, swap=False)


def blocks_not_transposed(warp: Any, x: Any, y: Any) -> None:
    _transpose(warp, x, y, turn=False)


def transposed_twice(warp: Any, x: Any, y: Any) -> None:
    _transpose(warp, x, y, swap=False, turn=False)


def through_shared_memory(warp: Any, x: Any, y: Any) -> None:
    _transpose(warp, x, y)
    warp.st_shared(4 * warp.laneid, 0)


def element_by_element(warp: Any, x: Any, y: Any) -> None:
    """No movmatrix: every lane loads and stores 16 bits at a time."""
    for first in range(0, 256, 32):
        row, column = (warp.laneid + first) // 16, (warp.laneid + first) % 16
        warp.st_global(y.at(column, row), warp.ld_global(x.at(row, column), "b16"), "b16")


# ---------------------------------------------------------------------------------------------- mended_tile


def _tile(
    warp: Any, a: Any, d: Any, *, stride: int = 144, sync: bool = True, exchange: bool = False, step_bytes: int = 32
) -> None:
    for piece in range(4):
        unit = warp.laneid + 32 * piece
        row, column = unit // 8, unit % 8
        warp.st_shared(stride * row + 16 * column, warp.ld_global(a.at(row, 8 * column), "v4.b32"), "v4.b32")
    if sync:
        warp.bar_warp_sync()
    lane = warp.laneid
    down, along = (lane % 8 + lane // 16 * 8, lane // 8 % 2) if exchange else (lane % 16, lane // 16)
    for step in range(4):
        held = warp.run(X4, stride * down + step_bytes * step + 16 * along)
        warp.st_global(d.at(step, warp.laneid, 0), held, "v4.b32")


def as_it_was(warp: Any, a: Any, d: Any) -> None:
    _tile(warp, a, d, stride=136, sync=False)


def still_racing(warp: Any, a: Any, d: Any) -> None:
    _tile(warp, a, d, sync=False)


def no_padding(warp: Any, a: Any, d: Any) -> None:
    _tile(warp, a, d, stride=128)


def matrices_exchanged(warp: Any, a: Any, d: Any) -> None:
    _tile(warp, a, d, exchange=True)


def same_step(warp: Any, a: Any, d: Any) -> None:
    _tile(warp, a, d, step_bytes=0)


# ---------------------------------------------------------------------------------------------- stmatrix_epilogue


def _epilogue(
    warp: Any,
    c: Any,
    out: Any,
    *,
    stride: int = 80,
    sync: bool = True,
    exchange: bool = False,
    swap: bool = False,
    trans: bool = False,
    cut: bool = False,
    words: int = 4,
) -> None:
    lane = warp.laneid
    opcode = STORE.replace(".shared", ".trans.shared") if trans else STORE
    down, along = (lane % 8 + lane // 16 * 8, lane // 8 % 2) if exchange else (lane % 16, lane // 16)
    for pair in range(2):
        held = warp.registers(4)
        for n in range(2):
            values = warp.ld_global(c.at(2 * pair + n, lane, 0), "v4.b32")[:, :]
            bits = values >> 16 if cut else values.view(np.float32).astype(np.float16).view(np.uint16).astype(np.uint32)
            low, high = (bits[:, 1::2], bits[:, 0::2]) if swap else (bits[:, 0::2], bits[:, 1::2])
            held[:, 2 * n : 2 * n + 2] = low | high << 16
        warp.run(opcode, stride * down + 16 * (2 * pair + along), held)
    if sync:
        warp.bar_warp_sync()
    for half in range(2):
        row, unit = 8 * half + lane // 4, lane % 4
        piece = warp.ld_shared(stride * row + 16 * unit, "v4.b32")
        for first in range(0, 4, words):
            to = out.at(row, 8 * unit + 2 * first)
            warp.st_global(to, piece[:, first : first + words], f"v{words}.b32")


def halves_exchanged(warp: Any, c: Any, out: Any) -> None:
    _epilogue(warp, c, out, swap=True)


def matrices_1_and_2(warp: Any, c: Any, out: Any) -> None:
    _epilogue(warp, c, out, exchange=True)


def with_trans(warp: Any, c: Any, out: Any) -> None:
    _epilogue(warp, c, out, trans=True)


def upper_halves(warp: Any, c: Any, out: Any) -> None:
    _epilogue(warp, c, out, cut=True)


def not_synchronised(warp: Any, c: Any, out: Any) -> None:
    _epilogue(warp, c, out, sync=False)


def conflicting(warp: Any, c: Any, out: Any) -> None:
    _epilogue(warp, c, out, stride=64)


def eight_bytes(warp: Any, c: Any, out: Any) -> None:
    _epilogue(warp, c, out, words=2)


def loaded_at_once(warp, x, out):
    warp.st_shared(4 * warp.laneid, warp.ld_global(x.at(warp.laneid)))
    loaded = warp.run("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16", 16 * (warp.laneid % 8))
    warp.st_global(out.at(warp.laneid), loaded)


def loaded_straight(warp, x, out):
    warp.st_shared(4 * warp.laneid, warp.ld_global(x.at(warp.laneid)))
    warp.bar_warp_sync()
    loaded = warp.run("ldmatrix.sync.aligned.m8n8.x1.shared.b16", 16 * (warp.laneid % 8))
    warp.st_global(out.at(warp.laneid), loaded)


def loaded_then_synced(warp, x, out):
    warp.st_shared(4 * warp.laneid, warp.ld_global(x.at(warp.laneid)))
    loaded = warp.run("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16", 16 * (warp.laneid % 8))
    warp.st_global(out.at(warp.laneid), loaded)
    warp.bar_warp_sync()


WRONG = {
    "padded_row": [
        (("given", lambda given: given.row_bytes), "share their banks"),
        (("given", lambda given: given.row_bytes + 4), "not a multiple of 16"),
        (("given", lambda given: given.row_bytes + 48), "a smaller distance has none either"),
        (16, "overlap"),
    ],
    "bytes_after_trans": [
        (transposed_bytes, ".trans moves 16-bit elements"),
        (beyond_the_rows, ".trans moves 16-bit elements"),
        (not_transposed, "without .trans"),
        (bytes_exchanged, "The two bytes of a 16-bit element are swapped"),
        (bytes_of_two_rows, "bytes 0 and 1 are one 16-bit element"),
    ],
    "place_of_unit": [
        (not_swizzled, "nothing is swizzled yet"),
        (row_mod_2, "You XOR with row % 2"),
        (padded, "This is padding"),
        (too_many_bits, "XOR reaches beyond the units of a row"),
        (units_not_bytes, "These are numbers of units"),
        (by_columns, "You store the tile by columns of units"),
    ],
    "transpose_16": [
        (blocks_stay, "the two off the diagonal must change places"),
        (blocks_not_transposed, "none of them is transposed"),
        (transposed_twice, "This is X itself"),
        (through_shared_memory, "the kernel uses st.shared"),
        (element_by_element, "the kernel does not use movmatrix"),
    ],
    "mended_tile": [
        (as_it_was, "misaligned"),
        (still_racing, "ldmatrix-unsynced"),
        (no_padding, "at most 32 are allowed"),
        (matrices_exchanged, "a1 and a2 are swapped"),
        (same_step, "All four steps load the same 16 columns"),
    ],
    "stmatrix_epilogue": [
        (halves_exchanged, "The two halves of each register are swapped"),
        (matrices_1_and_2, "Matrices 1 and 2 of each stmatrix are swapped"),
        (with_trans, "leave out .trans"),
        (upper_halves, "That is a bf16"),
        (not_synchronised, "The sanitizer reports"),
        (conflicting, "at most 24 are allowed"),
        (eight_bytes, "4 stores of fewer than 16 bytes"),
    ],
    "repair_ldmatrix": [
        (loaded_at_once, "bar.warp.sync if only the warp's own lanes"),
        (loaded_straight, ".trans is missing"),
        (loaded_then_synced, "bar.warp.sync if only the warp's own lanes"),
    ],
}
