"""A class that works alone: answers to exercises of 02_fragments as people write them, the obvious one first.

More than half of a class writes the obvious answer to a short exercise, the repairs have one answer that everybody
finds, and long answers are made of parts.
"""

import ast
import random

#: Short answers: exercises are divided by ===, the ways to write one by ---.
SHORT = """\
def where_of_b(row, column):
    return 4 * column + row // 2 % 4, row // 8
---
def where_of_b(row, column):
    pair = row % 8 // 2
    lane = column * 4 + pair
    register = 0
    if row >= 8:
        register = 1
    return lane, register
---
def where_of_b(row, column):
    half, rest = divmod(row, 8)
    return 4 * column + rest // 2, half
===
def where_of_bytes(row, column):
    lane = 4 * (row % 8) + column // 4 % 4
    register = 2 * (column // 16) + row // 8
    return lane, register, column % 4
---
def where_of_bytes(row, column):
    lower, upper = row % 8, row // 8
    word, byte = divmod(column, 4)
    right, t = divmod(word, 4)
    return 4 * lower + t, upper + 2 * right, byte
---
def where_of_bytes(row, column):
    register = 0
    if row > 7:
        row -= 8
        register += 1
    if column > 15:
        column -= 16
        register += 2
    return row * 4 + column // 4, register, column % 4
===
def who_answers(probes):
    b = np.full((32, 2), 0x3C003C00, np.uint32)
    c = np.zeros((32, 4), np.uint32)
    answers = []
    for a in probes:
        d = tcemu.run(mma, a, b, c)
        answers.append(np.argwhere(d)[0])
    return answers
---
def who_answers(probes):
    ones = np.ones((32, 2), dtype=np.uint32) * 0x3C003C00
    found = np.zeros((len(probes), 2), dtype=int)
    for n, probe in enumerate(probes):
        result = tcemu.run(mma, probe, ones, np.zeros((32, 4), dtype=np.uint32))
        for i in reversed(range(32)):
            for j in (3, 2, 1, 0):
                if result[i, j] != 0:
                    found[n] = i, j
    return found
---
def who_answers(probes):
    halves = np.stack([probes & 0xFFFF, probes >> 16]).astype(np.uint16).view(np.float16)
    sums = halves.astype(np.float32).sum(axis=0)
    out = []
    for each in sums:
        upper = (each[:, 0] + each[:, 2]).reshape(8, 4).sum(axis=1)
        lower = (each[:, 1] + each[:, 3]).reshape(8, 4).sum(axis=1)
        out.append(next((4 * g, 2 * h) for g in range(8) for h, half in enumerate((upper, lower)) if half[g]))
    return out
===
def repair_swap(warp, x, out):
    warp.st_shared(4 * warp.laneid, warp.ld_global(x.at(warp.laneid)))
    warp.bar_warp_sync()
    warp.st_global(out.at(warp.laneid), warp.ld_shared(4 * (31 - warp.laneid)))
===
def repair_padding(warp, x, out):
    with warp.only(warp.laneid < 24):
        warp.st_shared(4 * warp.laneid, warp.ld_global(x.at(warp.laneid)))
    with warp.only(warp.laneid >= 24):
        warp.st_shared(4 * warp.laneid, 0)
    warp.bar_warp_sync()
    pair = warp.ld_shared(4 * warp.laneid) + warp.ld_shared(4 * (31 - warp.laneid))
    warp.st_global(out.at(warp.laneid), pair)
===
def repair_edge(warp, x, out):
    with warp.only(warp.threads < 48):
        warp.st_global(out.at(warp.threads), 2 * warp.ld_global(x.at(warp.threads)))
"""
#: Long answers: what their parts are divided by is +++; nobody writes all of them as somebody else does.
LONG = """\
def fragment_by_hand(A):
    bits = A.view(np.uint16).astype(np.uint32)
---
def fragment_by_hand(A):
    bits = np.asarray(A, dtype=np.float16).view('uint16').astype(int)
---
def fragment_by_hand(A):
    bits = [[int(x.view(np.uint16)) for x in row] for row in A]
---
def fragment_by_hand(A):
    bits = np.frombuffer(A.tobytes(), np.uint16).reshape(16, 16).astype(np.uint64)
+++
    out = np.zeros((32, 4), np.uint32)
---
    out = np.empty([32, 4], dtype='uint32')
---
    out = np.full((32, 4), 0, dtype=np.uint32)
+++
    for lane in range(32):
        for r in range(4):
---
    for lane, r in np.ndindex(32, 4):
        if True:
---
    for position in range(128):
        lane, r = divmod(position, 4)
        if lane >= 0:
+++
            row = lane // 4 + 8 * (r % 2)
            column = 2 * (lane % 4) + 8 * (r // 2)
---
            row = lane >> 2
            column = (lane & 3) * 2
            if r in (1, 3):
                row += 8
            if r > 1:
                column += 8
---
            c, h = divmod(r, 2)
            g, t = divmod(lane, 4)
            row = h * 8 + g
            column = t * 2 + c * 8
+++
            out[lane, r] = bits[row, column] | bits[row, column + 1] << 16
---
            first = bits[row][column]
            second = bits[row][column + 1]
            out[lane][r] = second * 2**16 + first
---
            pair = bits[row][column], bits[row][column + 1]
            out[lane, r] = sum(int(half) << 16 * place for place, half in enumerate(pair))
+++
    return out
---
    return out.reshape(32, 4)
---
    result = out.astype(np.uint32)
    return result
===
def row_major_b(warp, a, b, out):
    g, t = warp.laneid // 4, warp.laneid % 4
---
def row_major_b(warp, a, b, out):
    lane = warp.laneid
    g = lane >> 2
    t = lane & 3
---
def row_major_b(warp, a, b, out):
    g, t = np.divmod(warp.laneid, 4)
+++
    d = warp.registers(4, fill=0)
---
    d = np.zeros((32, 4), np.uint32)
+++
    for k in (0, 16):
---
    for step in range(2):
        k = 16 * step
---
    for k in range(0, 32, 16):
+++
        held = np.hstack([warp.ld_global(a.at(g + 8 * (r % 2), k + 8 * (r // 2) + 2 * t)) for r in range(4)])
---
        a0 = warp.ld_global(a.at(g, k + 2 * t))
        a1 = warp.ld_global(a.at(g + 8, k + 2 * t))
        a2 = warp.ld_global(a.at(g, k + 2 * t + 8))
        a3 = warp.ld_global(a.at(g + 8, k + 2 * t + 8))
        held = np.hstack([a0, a1, a2, a3])
---
        pieces = []
        for c in (0, 8):
            for h in (0, 8):
                pieces.append(warp.ld_global(a.at(g + h, k + c + 2 * t)))
        held = np.concatenate(pieces, axis=1)
+++
        pairs = []
        for r in range(2):
            low = warp.ld_global(b.at(k + 8 * r + 2 * t, g), 'b16')
            high = warp.ld_global(b.at(k + 8 * r + 2 * t + 1, g), 'b16')
            pairs.append(low | high << 16)
        right = np.hstack(pairs)
---
        rows = [k + 2 * t, k + 2 * t + 1, k + 2 * t + 8, k + 2 * t + 9]
        halves = [warp.ld_global(b.at(row, g), 'b16') for row in rows]
        right = np.hstack([halves[0] + 65536 * halves[1], halves[2] + 65536 * halves[3]])
---
        def word(row):
            return warp.ld_global(b.at(row, g), 'b16') | (warp.ld_global(b.at(row + 1, g), 'b16') << 16)
        right = np.hstack((word(k + 2 * t), word(k + 2 * t + 8)))
+++
        d = warp.run(mma, held, right, d)
---
        new = warp.run(mma, held, right, d)
        d = new
+++
    warp.st_global(out.at(g, 2 * t), d[:, :2], 'v2.b32')
    warp.st_global(out.at(g + 8, 2 * t), d[:, 2:], 'v2.b32')
---
    for half in (0, 1):
        warp.st_global(out.at(g + 8 * half, 2 * t), d[:, 2 * half : 2 * half + 2], 'v2.b32')
---
    for i in range(4):
        warp.st_global(out.at(g + 8 * (i // 2), 2 * t + i % 2), d[:, i : i + 1])
"""


def works(number, seed=0):
    """The cells of so many students, who have not seen each other's."""
    choice = random.Random(seed)
    answers = [exercise.split("\n---\n") for exercise in SHORT.strip().split("\n===\n")]
    divided = [exercise.split("\n+++\n") for exercise in LONG.strip("\n").split("\n===\n")]

    def one():
        short = [ways[0] if choice.random() < 0.5 else choice.choice(ways) for ways in answers]
        return short + ["\n".join(choice.choice(part.split("\n---\n")) for part in parts) for parts in divided]

    return [one() for _ in range(number)]


def disguised(cells, seed, edits=4):
    """A copy of somebody's cells with so many changes of what it computes by the way, and with all operands turned."""
    choice = random.Random(seed)
    trees = [Turned().visit(ast.parse(cell)) for cell in cells]
    bodies = [node.body for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.For)]
    for _ in range(edits):
        body = choice.choice(bodies)
        line = choice.choice([f"unused = f({choice.randrange(9)})", f"print({choice.randrange(9)}, len(str(3)))"])
        body.insert(choice.randrange(len(body)), ast.parse(line).body[0])
    choice.shuffle(trees)
    return [ast.unparse(ast.fix_missing_locations(tree)) for tree in trees]


class Turned(ast.NodeTransformer):
    """b * a for a * b, 7 + 1 for 8, and other names."""

    def visit_BinOp(self, node):
        self.generic_visit(node)
        if isinstance(node.op, ast.Add | ast.Mult | ast.BitOr):
            node.left, node.right = node.right, node.left
        return node

    def visit_Constant(self, node):
        if type(node.value) is int and node.value > 1:
            return ast.BinOp(ast.Constant(node.value - 1), ast.Add(), ast.Constant(1))
        return node

    def visit_Name(self, node):
        return ast.Name(f"my_{node.id}", node.ctx)
