"""Ways in which people work in a notebook, and whether `check` calls the answer right in Jupyter's kernel.

Each is a list of cells about the exercise where_of_b of notebook 02. What Jupyter says is what a kernel said;
test_ways.py asks a kernel again.
"""

from boxed import HONEST

IMPORT = "from tcemu.course import check, given, hint\nimport numpy as np\nimport tcemu"
CHECK = "check(where_of_b)"
WRONG = "def where_of_b(row, column):\n    return 0, 0"
RETURNS = "4 * column + row // 2 % 4, row // 8"
LATE = "def where_of_b(row, column):\n    return table[row, column]"

#: What they do, their cells, and what the last check says in Jupyter.
WAYS = [
    ("as given", [IMPORT, HONEST, CHECK], "right"),
    (
        "a function that fills a table, called alone",
        [
            IMPORT,
            (
                "table = {}\ndef build(into):\n    for row in range(16):\n        for column in range(8):\n"
                f"            into[row, column] = {RETURNS}"
            ),
            "build(table)",
            LATE,
            CHECK,
        ],
        "right",
    ),
    (
        "a call that sets a global",
        [
            IMPORT,
            f"def start():\n    global rule\n    rule = lambda row, column: ({RETURNS})",
            "start()",
            "def where_of_b(row, column):\n    return rule(row, column)",
            CHECK,
        ],
        "right",
    ),
    (
        "a decorator that registers",
        [
            IMPORT,
            "held = {}\ndef register(f):\n    held[f.__name__] = f\n    return f",
            f"@register\ndef rule(row, column):\n    return {RETURNS}",
            "where_of_b = held['rule']",
            "check(where_of_b=where_of_b)",
        ],
        "right",
    ),
    (
        "a result in an underscore",
        [
            IMPORT,
            (
                "table = {}\ndef fill(d):\n    d.update({(r, c): (4 * c + r // 2 % 4, r // 8) for r in range(16) "
                "for c in range(8)})\n    return len(d)"
            ),
            "_ = fill(table)",
            LATE,
            CHECK,
        ],
        "right",
    ),
    (
        "the last result, by an underscore",
        [IMPORT, "7 * 1 - 3", "four = _", HONEST.replace("4 *", "four *"), CHECK],
        "right",
    ),
    ("the last but one", [IMPORT, "4", "5", "four = __", HONEST.replace("4 *", "four *"), CHECK], "right"),
    (
        "Out and In",
        [IMPORT, "4", "four = Out[2]\nassert In[2] == '4'", HONEST.replace("4 *", "four *"), CHECK],
        "right",
    ),
    (
        "a result with a semicolon is not kept",
        [IMPORT, "4", "5;", "four = _", HONEST.replace("4 *", "four *"), CHECK],
        "right",
    ),
    ("an underscore of one's own", [IMPORT, "_ = 4", "5", "four = _", HONEST.replace("4 *", "four *"), CHECK], "right"),
    ("%%time on the answer", [IMPORT, "%%time\n" + HONEST, CHECK], "right"),
    ("%%time on the check", [IMPORT, HONEST, "%%time\n" + CHECK], "right"),
    ("%%time after an empty line", [IMPORT, "\n\n%%time\n" + HONEST, CHECK], "right"),
    ("%time on one line", [IMPORT, HONEST, "%time found = where_of_b(3, 4)\nassert found == (17, 0)", CHECK], "right"),
    ("%timeit", [IMPORT, HONEST, "%timeit -n 2 -r 1 where_of_b(1, 2)", CHECK], "right"),
    (
        "%%capture",
        [IMPORT, "%%capture said\nprint('hello')\n" + HONEST, "assert said.stdout == 'hello\\n'", CHECK],
        "right",
    ),
    (
        "%matplotlib inline and %config",
        [IMPORT + "\n%config InlineBackend.figure_format = 'svg'", HONEST, CHECK],
        "right",
    ),
    ("%load_ext autoreload", [IMPORT, "%load_ext autoreload\n%autoreload 2", HONEST, CHECK], "right"),
    (
        "a module that a cell writes",
        [
            IMPORT,
            "%%writefile answer_of_ada.py\n" + HONEST,
            "import sys; sys.path.insert(0, '.')",
            "from answer_of_ada import where_of_b",
            CHECK,
        ],
        "right",
    ),
    (
        "%run of a file that a cell writes",
        [IMPORT, "%%writefile answer_of_bob.py\n" + HONEST, "%run answer_of_bob.py", CHECK],
        "right",
    ),
    ("a shell line", [IMPORT, "!ls", HONEST, CHECK], "right"),
    ("a shell line's output", [IMPORT, "said = !echo 4", HONEST.replace("4 *", "int(said[0]) *"), CHECK], "right"),
    (
        "a shell line with a variable",
        [IMPORT, "n = 4\nsaid = !echo {n}", HONEST.replace("4 *", "int(said[0]) *"), CHECK],
        "right",
    ),
    ("%pwd", [IMPORT, "place = %pwd\nassert place", HONEST, CHECK], "right"),
    ("a question mark", [IMPORT, "np.zeros?", HONEST, CHECK], "right"),
    ("%%html", [IMPORT, "%%html\n<b>My notes: 3 < 4</b>", HONEST, CHECK], "right"),
    ("%%bash", [IMPORT, "%%bash\nfor i in 1 2; do echo $i; done", HONEST, CHECK], "right"),
    ("display", [IMPORT, HONEST, "display(where_of_b(1, 2), 'text')", CHECK], "right"),
    ("display with the answer", [IMPORT, "display('working on it')\n" + HONEST, CHECK], "right"),
    (
        "display imported",
        ["from IPython.display import Markdown, display\n" + IMPORT, "display(Markdown('**b**'))\n" + HONEST, CHECK],
        "right",
    ),
    (
        "get_ipython",
        [IMPORT, "get_ipython().run_line_magic('time', 'four = 4')", HONEST.replace("4 *", "four *"), CHECK],
        "right",
    ),
    (
        "get_ipython imported",
        [
            "from IPython import get_ipython\n" + IMPORT,
            "shell = get_ipython()\nshell.user_ns['four'] = 4",
            HONEST.replace("4 *", "four *"),
            CHECK,
        ],
        "right",
    ),
    (
        "await outside a function",
        [
            IMPORT,
            (
                f"import asyncio\nasync def compute():\n    await asyncio.sleep(0)\n    return lambda row, column: "
                f"({RETURNS})"
            ),
            "where_of_b = await compute()",
            "check(where_of_b=where_of_b)",
        ],
        "right",
    ),
    (
        "a task that goes on in a later cell",
        [
            IMPORT,
            (
                "import asyncio\nasync def later():\n    await asyncio.sleep(0)\n    return 4\n"
                "task = asyncio.ensure_future(later())\nawait asyncio.sleep(0)"
            ),
            "four = await task",
            HONEST.replace("4 *", "four *"),
            CHECK,
        ],
        "right",
    ),
    (
        "async for",
        [
            IMPORT,
            "async def rows():\n    for each in range(2):\n        yield each\nheld = [each async for each in rows()]",
            HONEST.replace("4 *", "(3 + held[1]) *"),
            CHECK,
        ],
        "right",
    ),
    (
        "asyncio.run, which a notebook refuses",
        [
            IMPORT,
            "import asyncio\nasync def four_of():\n    return 4\nfour = asyncio.run(four_of())",
            HONEST.replace("4 *", "four *"),
            CHECK,
        ],
        "wrong",
    ),
    ("three wrong checks, then a right one", [IMPORT, *[WRONG, CHECK] * 3, HONEST, CHECK], "right"),
    ("five wrong checks in one cell", [IMPORT, WRONG, "\n".join([CHECK] * 5), HONEST, CHECK], "right"),
    ("right, then wrong", [IMPORT, HONEST, CHECK, WRONG, CHECK], "wrong"),
    ("thirty checks, the last right", [IMPORT, WRONG, f"for _ in range(30):\n    {CHECK}", HONEST, CHECK], "right"),
    (
        "a check in a loop over answers",
        [
            IMPORT,
            WRONG,
            HONEST.replace("where_of_b", "better"),
            "for each in (where_of_b, better):\n    check(where_of_b=each)",
        ],
        "right",
    ),
    ("a check in a function", [IMPORT, HONEST, "def done():\n    return check(where_of_b)", "done()"], "right"),
    ("a check by another name", ["from tcemu.course import check as graded", HONEST, "graded(where_of_b)"], "right"),
    ("a check through the package", ["import tcemu.course", HONEST, "tcemu.course.check(where_of_b)"], "right"),
    ("an error in a cell that is not needed", [IMPORT, "1 / 0", HONEST, CHECK], "right"),
    ("an error halfway through a cell", [IMPORT, HONEST + "\nraise ValueError('enough')", CHECK], "right"),
    ("a cell that is not Python", [IMPORT, "this is no Python", HONEST, CHECK], "right"),
    ("a cell that is indented", [IMPORT, "\n".join("    " + line for line in HONEST.split("\n")), CHECK], "right"),
    (
        "lines copied from a session",
        [IMPORT, ">>> four = 4\n>>> five = 5", HONEST.replace("4 *", "four *"), CHECK],
        "right",
    ),
    (
        "a class whose object is called",
        [
            IMPORT,
            f"class Rule:\n    def __call__(self, row, column):\n        return {RETURNS}",
            "where_of_b = Rule()",
            "check(where_of_b=where_of_b)",
        ],
        "right",
    ),
    ("a cached function", [IMPORT, "import functools\n@functools.cache\n" + HONEST, CHECK], "right"),
    (
        "a nested function that is returned",
        [
            IMPORT,
            (
                "def make():\n    four = 4\n    def where_of_b(row, column):\n"
                "        return four * column + row // 2 % 4, row // 8\n    return where_of_b"
            ),
            "where_of_b = make()",
            CHECK,
        ],
        "right",
    ),
    ("exec of a string", [IMPORT, f"exec({HONEST!r})", CHECK], "right"),
    (
        "a global that changes after the definition",
        [IMPORT, "width = 1\n" + HONEST.replace("4 *", "width *"), "for _ in range(2):\n    width *= 2", CHECK],
        "right",
    ),
    ("deleted and defined again", [IMPORT, WRONG, "del where_of_b", HONEST, CHECK], "right"),
    (
        "a with statement at the top",
        [
            IMPORT,
            "with np.errstate(all='ignore'):\n    four = np.int64(4)",
            HONEST.replace("4 *", "int(four) *"),
            CHECK,
        ],
        "right",
    ),
    ("an answer that prints", [IMPORT, HONEST.replace("\n", "\n    print(row, column, end=' ')\n"), CHECK], "right"),
    (
        "warnings switched off, a seed, an option of numpy",
        [
            "import warnings\nwarnings.filterwarnings('ignore')\n" + IMPORT,
            "np.random.seed(0)\nnp.set_printoptions(precision=3)",
            HONEST,
            CHECK,
        ],
        "right",
    ),
    (
        "a match statement and a walrus",
        [IMPORT, "match 2:\n    case 2 if (four := 4) > 3:\n        pass", HONEST.replace("4 *", "four *"), CHECK],
        "right",
    ),
    ("a name of the notebook's own", [IMPORT, "assert __name__ == '__main__'\n" + HONEST, CHECK], "right"),
]
