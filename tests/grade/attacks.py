"""What hostile students hand in: a table of names, what the cell of the answer does, and what must come of it.

Each notebook answers two exercises: `where_of_b` in the cell that attacks, and `where_of_bytes`, honestly, in one after
it. A cell that no answer needs would not be run at all, so the attack and the answer share a cell.
"""

import json

from boxed import HONEST
from handed import archive, linked, notebook
from places import ROOT

SETUP = "from tcemu.course import check, given"
WRONG = "def where_of_b(row, column):\n    return 0, 0"
SECOND = (
    "def where_of_bytes(row, column):\n    return 4 * (row % 8) + column // 4 % 4, 2 * (column // 16) + row // 8, "
    "column % 4\ncheck(where_of_bytes)"
)
#: Right if the attack has found what it looks for, as Python's own code: the answer tells whether it did.
STOLEN = f"{HONEST}\nif not stolen:\n    where_of_b = lambda row, column: (0, 0)"


def book(attack, answer):
    """A notebook with an attack in the cell of its first answer."""
    return notebook(SETUP, f"{attack}\n{answer}", "check(where_of_b)", SECOND)


def reads(expression):
    """An attack that is right if the expression can be evaluated, and is true."""
    return f"import os, sys, socket\ntry: stolen = bool({expression})\nexcept Exception: stolen = False"


def forged(*values):
    """An attack that writes forged messages to every pipe that it finds."""
    return f"""
import json, os, struct
for number in range(3, 20):
    for value in {list(values)!r}:
        header = json.dumps([value, []]).encode()
        try: os.write(number, struct.pack("<II", len(header), 0) + header)
        except OSError: pass
"""


def sent(value, *sizes):
    """An attack that sends one forged message, with arrays of zeros of these sizes."""
    return f"""
import gc, json, os, struct
from tcemu.grade.inside.session import Session
(out,) = (each._out for each in gc.get_objects() if type(each) is Session)
header, body = json.dumps([{value}, {list(sizes)}]).encode(), bytes({sum(sizes)})
message = memoryview(struct.pack("<II", len(header), len(body)) + header + body)
while message: message = message[os.write(out, message):]
"""


RIGHT, LOST, FAILED, ANY = {"right"}, {"wrong"}, {"failed"}, {"wrong", "failed"}
SOLUTION = str(ROOT / "solutions" / "02_fragments.ipynb")

#: (what, the attack, the answer after it, the states that where_of_b may come to)
IN_THE_BOX = [
    # ---- answers that want to be right
    ("an answer equal to everything",
     "class Equal(tuple):\n    __eq__ = lambda *_: True\n    __ne__ = lambda *_: False\n    __hash__ = tuple.__hash__",
     "def where_of_b(row, column):\n    return Equal((0, 0))", LOST),
    ("patched builtins", "import builtins\nbuiltins.all = builtins.any = builtins.isinstance = lambda *_: True", WRONG,
     ANY),
    ("patched numpy", "import numpy\nnumpy.array_equal = numpy.all = numpy.asarray = lambda *_, **__: True", WRONG,
     ANY),
    ("patched tcemu", ("import tcemu.launcher, tcemu.sanitizer.sanitizer as s\ntcemu.launch = lambda *_, **__: None\n"
     "s.Sanitizer.__call__ = lambda *_: None"), WRONG, LOST),
    ("a module in the place of tcemu", ("import sys, types\nsys.modules['tcemu'] = sys.modules['numpy'] = "
     "types.ModuleType('tcemu')"), WRONG, ANY),
    ("an import hook", "import sys\nsys.meta_path[:] = [None]\nsys.path_hooks[:] = []", HONEST, RIGHT),
    ("a check of its own", "check = lambda *_: print('right')", WRONG, LOST),
    ("a verdict in place of an answer", "class Right:\n    state, right, share, points = 'right', True, 1.0, 99",
     "where_of_b = Right()", ANY),
    ("the judge, asked in the box", reads("__import__('tcemu.course.bank').course.bank.exercise('where_of_b')"), STOLEN,
     LOST),
    ("forged ends of cells", forged(["list", "ran", ""]), WRONG, ANY),
    ("forged results", forged(["list", "returned", ["list"], None], ["list", "value", True, 1], {"a": 1}, []), WRONG,
     ANY),
    ("garbage on the pipes", ("import os\nfor n in range(3, 20):\n    try: os.write(n, bytes(range(256)))\n"
     "    except OSError: pass"), HONEST, FAILED),
    ("a header without end", ("import os, struct\nfor n in range(3, 20):\n    try: os.write(n, struct.pack('<II', 8 << "
     "20, 64 << 20) + b'[' * 60_000)\n    except OSError: pass"), HONEST, FAILED),
    ("an object that lies", "class Liar:\n    __class__ = tuple\n    __repr__ = __getattr__ = lambda *_: 1 / 0",
     "def where_of_b(row, column):\n    return Liar()", LOST),
    ("results written for the grader", ("for name in ('results.json', '/tmp/grades.csv', '/tmp/ada.json'):\n"
     "    open(name, 'w').write('{\"points\": 100}')"), WRONG, LOST),
    ("all cases told in an error", "seen = []", ("def where_of_b(row, column):\n    seen.append((row, column))\n    if "
     "len(seen) > 50: raise ValueError(str(seen) * 999)\n    return 0, 0"), LOST),
    ("time as a channel", "import time\ndef where_of_b(row, column):\n    time.sleep(0.001 * row)\n    return 0, 0", "",
     LOST),
    # ---- reading and writing what is others'
    ("solutions read", reads(f"open({SOLUTION!r}).read()"), STOLEN, LOST),
    ("tests read", reads(f"os.listdir({str(ROOT / 'tests')!r})"), STOLEN, LOST),
    ("the rows of exercises read", reads("os.listdir(os.path.dirname(sys.modules['tcemu'].__file__) + '/course')"),
     STOLEN, LOST),
    ("other students and grades read", reads("[n for n in os.listdir('..') if n in ('ada', 'grades', 'grades.csv')]"),
     STOLEN, LOST),
    ("the environment read", reads("'SECRET' in os.environ or b'SECRET' in open('/proc/1/environ', 'rb').read()"),
     STOLEN, LOST),
    ("solutions written", reads(f"open({SOLUTION!r}, 'w').write('x')"), STOLEN, LOST),
    ("the package written", reads("open(sys.modules['tcemu'].__file__, 'a')"), STOLEN, LOST),
    ("poisoned kernels", reads("open(os.path.dirname(sys.modules['tcemu'].__file__) + '/kernels/__pycache__/x', 'w')"),
     STOLEN, LOST),
    (".pth files", reads("[open(p + '/x.pth', 'w') for p in sys.path if 'site-packages' in p]"), STOLEN, LOST),
    ("memory of another process", reads("open('/proc/1/mem', 'r+b').read(1)"), STOLEN, LOST),
    # ---- the network
    ("the internet", reads("socket.create_connection(('1.1.1.1', 53), 1)"), STOLEN, LOST),
    ("a service of the machine", reads("socket.create_connection(('127.0.0.1', 22), 1)"), STOLEN, LOST),
    ("a unix socket", reads("socket.socket(socket.AF_UNIX).connect('/run/docker.sock') is None"), STOLEN, LOST),
    ("an abstract socket", reads("socket.socket(socket.AF_UNIX).connect('\\0/tmp/.X11-unix/X0') is None"), STOLEN,
     LOST),
    # ---- taking what others need
    ("a fork bomb", ("import os\nif not os.fork():\n    while True:\n        try: os.fork()\n        except "
     "OSError: pass"), HONEST, RIGHT | FAILED),
    ("a memory bomb", "held = []\nwhile True: held.append(bytearray(1 << 24))", HONEST, FAILED),
    ("memory that nobody counts", reads("os.memfd_create('x') + 1"), STOLEN, LOST),
    ("buffers of sockets", reads("socket.socketpair()"), STOLEN, LOST),
    ("queues of the file system", reads("__import__('ctypes').CDLL(None).inotify_init1(0) + 1"), STOLEN, LOST),
    ("terminals", reads("os.openpty()"), STOLEN, LOST),
    ("locks without end", reads("__import__('fcntl').lockf(open('/tmp/x', 'w'), 2, 1, 1) is None"), STOLEN, LOST),
    ("a namespace of one's own", reads("not __import__('ctypes').CDLL(None).unshare(0x10000000)"), STOLEN, LOST),
    ("an endless loop", "while True: pass", HONEST, FAILED),
    ("an endless loop in a thread", ("import threading\ndef on():\n    while True: pass\n"
     "for _ in range(4): threading.Thread(target=on).start()"), HONEST, RIGHT | FAILED),
    ("an endless loop in C", "import re\nre.match('(a*)*b', 'a' * 60)", HONEST, FAILED),
    ("an endless loop in a destructor", "class Loop:\n    def __del__(self):\n        while True: pass\nLoop()", HONEST,
     FAILED),
    ("deaf to signals", ("import signal\nfor n in set(signal.Signals) - {9, 19}: signal.signal(n, signal.SIG_IGN)\n"
     "while True: pass"), HONEST, FAILED),
    ("an endless answer", "", "def where_of_b(row, column):\n    while True: pass", FAILED),
    ("the parent killed", "import os\nos.kill(os.getppid(), 9)", HONEST, FAILED),
    ("every process killed", "import os\nos.kill(-1, 9)", HONEST, RIGHT | FAILED),
    ("an end without a word", "import os\nos._exit(0)", HONEST, FAILED),
    ("an end in the answer", "import os", "def where_of_b(row, column):\n    os._exit(3)", FAILED),
    ("a process that stops itself", "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", HONEST, FAILED),
    ("a crash in C", "import ctypes\nctypes.string_at(0)", HONEST, FAILED),
    ("a crash of the stack", "import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()", HONEST, FAILED),
    ("closed pipes", "import os\nos.closerange(3, 100)", HONEST, FAILED),
    ("much printed", "import sys\nfor _ in range(20):\n    print('x' * 1_000_000), sys.stderr.write('x' * 1_000_000)",
     HONEST, RIGHT),
    ("a huge file", "with open('/tmp/huge', 'wb') as file:\n    while True: file.write(bytes(1 << 20))", HONEST,
     FAILED),
    ("a sparse file", reads("open('/tmp/sparse', 'wb').truncate(1 << 40)"), STOLEN, LOST),
    ("a huge answer", "import numpy", "def where_of_b(row, column): return numpy.zeros(10**8)", ANY),
    ("an endless range", "", "def where_of_b(row, column): return range(10**15)", LOST),
    ("a range that is forged", ("import sys, json\nfrom tcemu.grade.inside import wire\nwire.Writer.write = lambda *_: "
     "['list', 'returned', ['list', ['list', '', ['range', 0, 10**15, 1]]], None]"), HONEST, ANY),
    ("rows of nothing", "import numpy", "def where_of_b(row, column): return numpy.zeros((10**9, 0))", ANY),
    ("one array told a thousand times", sent("['list', 'ran', ['list'] + [['array', 0, 'uint8', [1 << 25]]] * 999]",
     1 << 25), HONEST, FAILED),
    ("a number without its bytes", sent("['list', 'ran', ['float', '00']]"), HONEST, FAILED),
    ("an error that is an array", sent("['list', 'ran', ['array', 0, 'uint8', [2]]]", 2), HONEST, FAILED),
    ("an answer that begins with an array", sent("['list', ['array', 0, 'uint8', [2]]]", 2), HONEST, FAILED),
    ("results of another form", ("from tcemu.grade.inside.session import Session\n"
     "Session.do_call = lambda *_: ['returned', [1, 2], 'x']"), HONEST, ANY),
    ("an array that changes", ("import numpy as np\nclass Changing(np.ndarray):\n    __array__ = lambda *_, **__: "
     "np.array([0, 0])\n    tobytes = lambda *_: bytes(16)"),
     "def where_of_b(row, column): return np.array([4, 1]).view(Changing)", LOST),
    ("an array that never ends", "class Endless:\n    def __array__(self, *_):\n        while True: pass",
     "def where_of_b(row, column): return Endless()", FAILED),
    ("a list in itself", "held = []\nheld += [held, held]", "def where_of_b(row, column): return held", FAILED),
    ("-0.0 and NaN", "", "def where_of_b(row, column): return -0.0, float('nan')", LOST),
    ("keys that collide", "keys = {k * (2**61 - 1): 0 for k in range(9)}", "def where_of_b(row, column): return keys",
     LOST),
    ("questions without end", "while True:\n    try: given('nothing')\n    except Exception: pass", HONEST, FAILED),
    ("checks without end", "", f"{WRONG}\nwhile True: check(where_of_b)", ANY),
    # ---- words
    ("HTML and scripts", "",
     "def where_of_b(row, column):\n    raise ValueError('<script>alert(1)</script><img src=x>')",
     LOST),
    ("terminal escapes", "",
     "def where_of_b(row, column):\n    raise ValueError('\\x1b[2J\\x1b]0;x\\x07\\u202e\\ud800')",
     LOST),
    ("a name that is markup", "Evil = type('<b>[red]\\x1b[31m', (ValueError,), {})",
     "def where_of_b(row, column):\n    raise Evil('no')", LOST),
]  # fmt: skip

#: Attacks that may cost the rest of their own notebook, because they break what all of its cells use.
SPOILT = {"a module in the place of tcemu", "patched builtins", "patched numpy", "forged ends of cells",
          "forged results", "a range that is forged", "results of another form"}  # fmt: skip


def _with(**keys):
    """An honest notebook, but for keys of its cells."""
    held = json.loads(notebook(SETUP, HONEST, "check(where_of_b)", SECOND))
    for cell in held["cells"]:
        cell.update(keys)
    return json.dumps(held).encode()


#: The pickle of a call of os.system, as somebody may put it where outputs are.
PICKLE = "gASVHAAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAR0cnVllIWUUpQu"
FAIR = notebook(SETUP, HONEST, "check(where_of_b)", SECOND)
#: (what, the files that are handed in, the states of where_of_b; other exercises are right if this one is)
AS_FILES = [
    ("a pickle bomb in outputs", {"02_fragments.ipynb": _with(outputs=[{
        "output_type": "display_data", "metadata": {}, "data": {"application/x-python-pickle": PICKLE}}])}, RIGHT),
    ("edited metadata", {"02_fragments.ipynb": _with(metadata={"nbgrader": {
        "grade": True, "points": 1000, "grade_id": "where_of_b", "solution": False, "locked": False}})}, RIGHT),
    ("edited test cells", {"02_fragments.ipynb": notebook(SETUP, WRONG, "assert True  # check(where_of_b)", SECOND)},
     LOST),
    ("deleted test cells", {"02_fragments.ipynb": notebook(HONEST, SECOND.partition("check")[0])}, RIGHT),
    ("a zip bomb", {"work.zip": archive({"02_fragments.ipynb": b"0" * (64 << 20)})}, FAILED),
    ("a zip slip", {"work.zip": archive({"../../../../tmp/02_fragments.ipynb": FAIR})}, FAILED),
    ("a path to the root", {"work.zip": archive({"/etc/02_fragments.ipynb": FAIR})}, FAILED),
    ("a link in an archive", {"work.zip": archive(linked("02_fragments.ipynb", SOLUTION))}, FAILED),
    ("what is not a notebook", {"02_fragments.ipynb": b"\x89PNG\r\n"}, FAILED),
    ("half a megabyte of brackets", {"02_fragments.ipynb": b"[" * 500_000}, FAILED),
    ("code that is nested too deeply", {"02_fragments.ipynb": book(f"x = {'(' * 5000}1{')' * 5000}", HONEST)}, FAILED),
    ("code with a null", {"02_fragments.ipynb": book("x = '\0'", HONEST)}, FAILED),
    ("a duplicate", {"02_fragments.ipynb": FAIR, "again/02_fragments.ipynb": book("", WRONG)}, RIGHT | LOST),
]  # fmt: skip
