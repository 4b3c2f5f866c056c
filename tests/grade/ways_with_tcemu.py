"""Ways to work on an exercise that forbids tcemu in its answer, in notebooks that use tcemu around it.

`check` in Jupyter lets them: the answer itself has only numbers, and calls nothing of tcemu. The grader runs them once
more where tcemu is not, and must say the same. test_ways.py asks a kernel, too.
"""

from boxed import CHECK, HONEST

IMPORT = "from tcemu.course import check, given, hint\nimport numpy as np\nimport tcemu"
MMA = (
    'mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")\n'
    'a, b, d = (mma.fragments[role] for role in "abd")'
)
#: The answer by hand.
RIGHT = "4 * column + row // 2 % 4, row // 8"
BY_NAME = "check(where_of_b=where_of_b)"

#: What they do, and their cells between the two above and the check.
WITH_TCEMU = [
    (
        "sizes in a dict",
        [
            (
                "sizes = {'lanes': b.lanes, 'rows': b.shape[0], 'columns': b.shape[1]}\n"
                "sizes |= {'per': b.elements_per_register, 'registers': b.registers}"
            ),
            (
                "def where_of_b(row, column):\n"
                "    quads = sizes['lanes'] // sizes['columns']\n"
                "    return quads * column + row // sizes['per'] % quads, row // (sizes['rows'] // sizes['registers'])"
            ),
            CHECK,
        ],
    ),
    (
        "a dict of all roles",
        [
            "sizes = {role: (f.shape, f.registers, f.lanes) for role, f in mma.fragments.items()}",
            (
                "def where_of_b(row, column):\n"
                "    (rows, columns), registers, lanes = sizes['b']\n"
                "    four = lanes // columns\n"
                "    return four * column + row // 2 % four, row // (rows // registers)"
            ),
            CHECK,
        ],
    ),
    (
        "twelve numbers from tcemu",
        [
            (
                "n0 = a.lanes\n"
                "n1 = b.lanes\n"
                "n2 = d.lanes\n"
                "n3 = a.registers\n"
                "n4 = b.registers\n"
                "n5 = d.registers\n"
                "n6 = a.elements_per_register\n"
                "n7 = b.elements_per_register\n"
                "n8 = d.elements_per_register\n"
                "n9 = a.shape\n"
                "n10 = b.shape\n"
                "n11 = d.shape"
            ),
            (
                "def where_of_b(row, column):\n"
                "    (rows, columns), four = n10, n1 // n10[1]\n"
                "    assert n0 + n2 + n3 + n5 + n6 + n8 + n9[0] + n11[0] > 0\n"
                "    return four * column + row // n7 % four, row // (rows // n4)"
            ),
            CHECK,
        ],
    ),
    (
        "definitions in both branches",
        [
            (
                "if b.registers == 2:\n"
                "    def where_of_b(row, column):\n"
                f"        return {RIGHT}\n"
                "else:\n"
                "    def where_of_b(row, column):\n"
                "        return column, row"
            ),
            CHECK,
        ],
    ),
    (
        "both branches of a comparison that tcemu decides",
        [
            (
                "if b.layout.holders(3, 1)[0][0] == 5:\n"
                "    def where_of_b(row, column):\n"
                f"        return {RIGHT}\n"
                "else:\n"
                "    def where_of_b(row, column):\n"
                "        return column, row"
            ),
            CHECK,
        ],
    ),
    (
        "try with tcemu, then by hand",
        [
            (
                "try:\n"
                "    assert b.holders(3, 1)[0][0] == 5\n"
                "    def where_of_b(row, column):\n"
                f"        return {RIGHT}\n"
                "except AssertionError:\n"
                "    def where_of_b(row, column):\n"
                "        return 0, 0"
            ),
            CHECK,
        ],
    ),
    (
        "a dataclass",
        [
            "from dataclasses import dataclass",
            ("@dataclass\nclass Sizes:\n    lanes: int\n    shape: tuple\n    names: dict"),
            "sizes = Sizes(b.lanes, b.shape, {'type': b.type, 'bits': tcemu.formats.lookup('f16').bits})",
            (
                "def where_of_b(row, column):\n"
                "    four = sizes.lanes // sizes.shape[1]\n"
                "    return four * column + row // (32 // sizes.names['bits']) % four, row // 8"
            ),
            CHECK,
        ],
    ),
    (
        "a table of one's own, asserted against tcemu",
        [
            (
                "table = {}\n"
                "for row in range(16):\n"
                "    for column in range(8):\n"
                f"        table[row, column] = {RIGHT}\n"
                "        lane, slot = b.holders(row, column)[0][:2]\n"
                "        assert lane == table[row, column][0]"
            ),
            ("def where_of_b(row, column):\n    return table[row, column]"),
            CHECK,
        ],
    ),
    (
        "assert inside a building function",
        [
            (
                "def build():\n"
                "    made = {}\n"
                "    for row in range(16):\n"
                "        for column in range(8):\n"
                f"            made[row, column] = {RIGHT}\n"
                "            assert b.holders(row, column)[0][0] == made[row, column][0], (row, column)\n"
                "            if b.holders(row, column)[0][0] != made[row, column][0]:\n"
                "                print('differs', row, column)\n"
                "    return made\n"
                "table = build()"
            ),
            ("def where_of_b(row, column):\n    return table[row, column]"),
            CHECK,
        ],
    ),
    (
        "the first of two candidates that tcemu confirms",
        [
            (
                "def first(row, column):\n"
                "    return column, row\n"
                "def second(row, column):\n"
                f"    return {RIGHT}\n"
                "for each in (first, second):\n"
                "    if all(each(r, c)[0] == b.holders(r, c)[0][0] for r in range(16) for c in range(8)):\n"
                "        where_of_b = each"
            ),
            BY_NAME,
        ],
    ),
    (
        "a choice in one line",
        [
            (f"first = lambda row, column: (column, row)\nsecond = lambda row, column: ({RIGHT})"),
            "where_of_b = second if second(3, 1)[0] == b.holders(3, 1)[0][0] else first",
            BY_NAME,
        ],
    ),
    (
        "np.testing of registers",
        [
            (f"def where_of_b(row, column):\n    return {RIGHT}"),
            (
                "B = np.arange(128, dtype=np.float16).reshape(16, 8)\n"
                "mine = np.zeros((32, 2, 2), np.float16)\n"
                "for row in range(16):\n"
                "    for column in range(8):\n"
                "        lane, register = where_of_b(row, column)\n"
                "        mine[lane, register, row % 2] = B[row, column]\n"
                "np.testing.assert_array_equal(mine.view(np.uint32)[..., 0], b.pack(B))\n"
                "ok = True"
            ),
            ("assert ok\ncheck(where_of_b)"),
        ],
    ),
    (
        "the shape of what pack returns",
        [
            "lanes, registers = b.pack(np.zeros(b.shape, np.float16)).shape",
            (
                "def where_of_b(row, column):\n"
                "    four = lanes // 8\n"
                "    return four * column + row // 2 % four, row // (16 // registers)"
            ),
            CHECK,
        ],
    ),
    (
        "formats in a list",
        [
            (
                "from tcemu import formats\n"
                "names = 'f16', 'bf16', 'tf32', 'e4m3', 's8', 'f32', 'f64', 'e5m2'\n"
                "bits = [formats.lookup(name).bits for name in names]"
            ),
            ("def where_of_b(row, column):\n    return 4 * column + row // (bits[5] // bits[0]) % 4, row // bits[4]"),
            CHECK,
        ],
    ),
    (
        "a helper that prints what tcemu says",
        [
            (
                "def show(fragment, *places):\n"
                "    for row, column in places:\n"
                "        lane, *rest = fragment.holders(row, column)[0]\n"
                "        print(f'{row:3} {column:3} lane {lane:>2}', *rest)\n"
                "show(b, (0, 0), (3, 1))"
            ),
            (
                "four = int(np.prod(b.shape)) // b.lanes\n"
                "def where_of_b(row, column):\n"
                "    return four * column + row // 2 % 4, row // 8"
            ),
            CHECK,
        ],
    ),
    (
        "default arguments",
        [
            (
                "def where_of_b(row, column, lanes=b.lanes, columns=b.shape[1], registers=b.registers):\n"
                "    four = lanes // columns\n"
                "    return four * column + row // 2 % four, row // (len(range(b_rows)) // registers)\n"
                "b_rows, _ = b.shape"
            ),
            CHECK,
        ],
    ),
    (
        "a module of one's own that asks tcemu",
        [
            (
                "%%writefile sizes_of_eve.py\n"
                "import tcemu\n"
                "b = tcemu.parse('mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32').fragments['b']\n"
                "LANES, ROWS, COLUMNS = b.lanes, *b.shape"
            ),
            (
                "import sys; sys.path.insert(0, '.')\n"
                "import sizes_of_eve as sizes\n"
                "LANES, COLUMNS = sizes.LANES, sizes.COLUMNS"
            ),
            (
                "def where_of_b(row, column):\n"
                "    four = LANES // COLUMNS\n"
                "    return four * column + row // 2 % four, row // 8"
            ),
            CHECK,
        ],
    ),
    (
        "numpy arrays of sizes",
        [
            "sizes = np.array([[f.lanes, f.registers, *f.shape] for f in (a, b, d)])",
            (
                "def where_of_b(row, column):\n"
                "    lanes, registers, rows, columns = sizes[1]\n"
                "    four = lanes // columns\n"
                "    return four * column + row // 2 % four, row // (rows // registers)"
            ),
            CHECK,
        ],
    ),
    (
        "a setting read in a loop until it fits",
        [
            ("width = 1\nwhile width * b.shape[1] != b.lanes:\n    width += 1"),
            ("def where_of_b(row, column):\n    return width * column + row // 2 % width, row // 8"),
            CHECK,
        ],
    ),
    (
        "a search by tcemu's answers",
        [
            (
                "for width in range(1, 32):\n"
                "    if all(width * c == b.holders(0, c)[0][0] for c in range(8)):\n"
                "        found = width"
            ),
            ("def where_of_b(row, column):\n    return found * column + row // 2 % found, row // 8"),
            CHECK,
        ],
    ),
    (
        "a sum over tcemu's answers",
        [
            "step = {'lane': b.holders(0, 1)[0][0] - b.holders(0, 0)[0][0], 'row': 2}",
            ("def where_of_b(row, column):\n    return step['lane'] * column + row // step['row'] % 4, row // 8"),
            CHECK,
        ],
    ),
    (
        "partial of a general function",
        [
            "from functools import partial",
            (
                "def general(row, column, *, lanes, shape, registers):\n"
                "    four = lanes // shape[1]\n"
                "    return four * column + row // 2 % four, row // (shape[0] // registers)"
            ),
            "where_of_b = partial(general, lanes=b.lanes, shape=b.shape, registers=b.registers)",
            BY_NAME,
        ],
    ),
    (
        "a count in a loop over what tcemu says",
        [
            (
                "count = 0\nfor row in range(16):\n    for column in range(8):\n"
                "        for lane, slot in b.layout.holders(row, column):\n            count += 1\nassert count == 128"
            ),
            "four = count // 32\n" + HONEST.replace("4 *", "four *"),
            CHECK,
        ],
    ),
    (
        "a loop that ends when tcemu agrees",
        [
            "four = 0\nwhile True:\n    four += 1\n    if b.holders(0, 1)[0][0] == four:\n        break",
            HONEST.replace("4 *", "four *"),
            CHECK,
        ],
    ),
    (
        "a set of tcemu's lanes",
        [
            "lanes = {b.holders(r, c)[0][0] for r in range(16) for c in range(8)}\nfour = len(lanes) // 8",
            HONEST.replace("4 *", "four *"),
            CHECK,
        ],
    ),
    (
        "a number that is put into a dict",
        [
            "steps = {}\nsteps['row'] = int(b.position(1, 0, 0)[0]) - int(b.position(0, 0, 0)[0])",
            HONEST.replace("// 2", "// steps['row']"),
            CHECK,
        ],
    ),
]
