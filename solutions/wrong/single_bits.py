"""Wrong answers of notebook 07 about single bits, with words that the diagnosis contains."""

import numpy as np

B1 = "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32"

# ---------------------------------------------------------------------------------------------- kernels


def signs(operation="xor", below=8, dot=lambda bits, ones: bits - 2 * ones):
    """The binary kernel with one thing that people get wrong."""

    def binary_layer(warp, x, w, bits, out):
        g, t = warp.laneid // 4, warp.laneid % 4
        a = [warp.ld_global(x.at(g + below * (r % 2), t + 4 * (r // 2))) for r in range(4)]
        b = [warp.ld_global(w.at(g, t + 4 * r)) for r in range(2)]
        d = warp.run(f"{B1}.{operation}.popc", np.hstack(a), np.hstack(b), warp.registers(4, 0)).view(np.int32)
        for i in range(4):
            warp.st_global(out.at(g + 8 * (i // 2), 2 * t + i % 2), dot(bits, d[:, [i]]).astype(np.int32))

    return binary_layer


WRONG = {
    "dot_from_popc": [
        (lambda k, ones: k - ones, "it counts twice"),
        (lambda k, ones: 2 * ones - k, "The sign is wrong"),
        (lambda k, ones: 256 - 2 * ones, "k is given"),
        (lambda k, ones: ones, "the number of bits that differ"),
    ],
    "binary_layer": [
        (signs(dot=lambda bits, ones: ones), "popc(x xor w) itself"),
        (signs(dot=lambda bits, ones: 256 - 2 * ones), "The padding counts as agreement"),
        (signs(dot=lambda bits, ones: bits - ones), "Each differing bit costs 2"),
        (signs(operation="and"), "You used .and"),
        (signs(below=0), "Rows 8 to 15 repeat rows 0 to 7"),
    ],
}
