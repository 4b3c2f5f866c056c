"""Ways round a ban, such as "do not use matmul", for somebody who has the source of the grader.

Each is code for a cell; then `call(f, *arguments)` calls f so that nobody notes it in the box where tcemu is.
"""

#: Finds what notes calls in this process.
NOTES = "import gc, sys, tcemu.entered as e, tcemu.grade.inside.session as s\ncall = lambda f, *a: f(*a)\n"

ROUND = [
    ("the watcher is rewritten", f"{NOTES}e.Entered.called = lambda *_: None"),
    ("the watcher's call is rewritten", f"{NOTES}e.Entered.call = lambda self, f, *a: f(*a)"),
    ("the report is rewritten", f"{NOTES}s.Session.do_entered = lambda *_: ['entered', []]"),
    ("the notes are emptied", (
        f"{NOTES}def call(f, *a):\n    found = f(*a)\n"
        "    for each in gc.get_objects():\n        if type(each) is e.Entered: each.names.clear()\n    return found")),
    ("the package's files count as Python's", (
        f"{NOTES}for file in list(e._kinds): e._kinds[file] = 'neutral'\n"
        "e._Kinds.__missing__ = lambda *_: 'neutral'")),
    ("a thread that threading does not know", (
        "import _thread, time\ndef call(f, *a):\n    found = []\n"
        "    _thread.start_new_thread(lambda: found.append(f(*a)), ())\n"
        "    while not found: time.sleep(0.001)\n    return found[0]")),
    ("the profiler, by ctypes", (
        "import ctypes, sys\ndef call(f, *a):\n    on = sys.getprofile()\n"
        "    ctypes.pythonapi.PyEval_SetProfile(None, None)\n    found = f(*a)\n    list(map(sys.setprofile, [on]))\n"
        "    return found")),
    ("the profiler's function, from its module's dict", (
        "import sys\ndef call(f, *a):\n    off, = [v for k, v in vars(sys).items() if k.startswith('setprof')]\n"
        "    on = sys.getprofile()\n    list(map(off, [None]))\n    found = f(*a)\n"
        "    list(map(off, [on]))\n    return found")),
]  # fmt: skip

IMPORT = """import numpy as np, tcemu
from tcemu import formats
from tcemu.course import check, given
mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
"""
#: Answers by what they may not call, with the way round it, by exercise.
BANNED = {
    "whole_product": "def whole_product(A, B):\n    return call(lambda: tcemu.matmul(A, B, instruction=mma))",
    "e4m3_patterns": (
        "def e4m3_patterns(numbers):\n"
        "    return call(lambda: formats.lookup('e4m3').encode(numbers, satfinite=True).view(np.uint8))"
    ),
    "who_answers": (
        "def who_answers(probes):\n    a, d = (mma.fragments[role] for role in 'ad')\n"
        "    ones = np.ones((16, 8), np.float16)\n"
        "    return [np.argwhere(d.pack(call(lambda: tcemu.matmul(a.unpack(each), ones, instruction=mma))))[0]"
        " for each in probes]"
    ),
    "descriptor_of_a_box": (
        "from tcemu.layouts import Descriptor\ndef descriptor_of_a_box(start, rows):\n"
        "    return call(lambda: Descriptor.for_tile('f16', rows, 64, swizzle=128, start=start).encode())"
    ),
}

_E4M3 = """def e4m3_patterns(numbers):
    size = np.abs(numbers.astype(np.float64))
    upper = np.clip(np.searchsorted(table, size), 1, 126)
    down, up = size - table[upper - 1], table[upper] - size
    nearest = np.where((down < up) | ((down == up) & (upper % 2 == 1)), upper - 1, upper)
    return (nearest | np.signbit(numbers) << 7).astype(np.uint8)"""
_PROBES = """def who_answers(probes):
    b, c = np.full((32, 2), 0x3C003C00, np.uint32), np.zeros((32, 4), np.uint32)
    return np.array([np.argwhere(step(a, b, c))[0] for a in probes])"""
_PRODUCT = """def whole_product(A, B):
    a, b, d = (mma.fragments[role] for role in "abd")
    m, n, k = mma.shape
    D = np.zeros((A.shape[0], B.shape[1]), np.float32)
    for i in range(0, A.shape[0], m):
        for j in range(0, B.shape[1], n):
            c = np.zeros((d.lanes, d.registers), np.uint32)
            for l in range(0, A.shape[1], k):
                c = tcemu.run(mma, a.pack(A[i : i + m, l : l + k]), b.pack(B[l : l + k, j : j + n]), c)
            D[i : i + m, j : j + n] = d.unpack(c)
    return D"""
#: What they do, the exercise, and cells that answer it with what it may call.
FAIR = [
    ("a table in a cell", "e4m3_patterns",
     ["table = formats.lookup('e4m3').decode(np.arange(127, dtype=np.uint8))", _E4M3]),
    ("the table of formats", "e4m3_patterns",
     ["f = formats.FORMATS['e4m3']\nassert f.bits == 8\ntable = f.decode(f.codes())[:127]", _E4M3]),
    ("a method of the class", "e4m3_patterns",
     ["from tcemu.formats import Format\nf = formats.lookup('e4m3')",
      "table = Format.decode(f, np.arange(127, dtype=np.uint8))", _E4M3]),
    ("number by number", "e4m3_patterns",
     ["f = formats.lookup('e4m3')\ntable = np.array([float(f.decode(np.uint8(n))) for n in range(127)])", _E4M3]),
    ("a class that keeps the format", "e4m3_patterns",
     [("class Table:\n    def __init__(self, name):\n        self.format = formats.lookup(name)\n"
       "        self.values = self.format.decode(np.arange(127, dtype=np.uint8))"),
      "table = Table('e4m3').values\nassert table.max() == formats.lookup('e4m3').largest", _E4M3]),
    ("partial", "who_answers",
     ["from functools import partial\nstep = partial(tcemu.run, mma, target='sm_90')", _PROBES]),
    ("imported by name", "who_answers",
     ["from tcemu import run", _PROBES.replace("step(", "run(mma.opcode, ")]),
    ("sizes and registers of tcemu", "whole_product", [_PRODUCT]),
    ("compared with what is forbidden, in a cell", "whole_product",
     [_PRODUCT, "A, B = np.ones((32, 32), np.float16), np.ones((32, 16), np.float16)",
      "assert (whole_product(A, B) == tcemu.matmul(A, B, instruction=mma)).all()"]),
    ("an error that is caught", "whole_product",
     ["try:\n    tcemu.parse('mma.nonsense')\nexcept tcemu.TcemuError as error:\n    fine = True",
      _PRODUCT.replace("return D", "return D if fine else None")]),
]  # fmt: skip
