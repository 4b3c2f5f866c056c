"""Answers in CUDA C++ in the grader: the compiler's box, its time, and what hostile sources earn."""

import pytest
from boxed import needs_box
from handed import notebook
from rows import rows

from tcemu import cuda
from tcemu.child import Child
from tcemu.course import exercise
from tcemu.cuda import toolkit
from tcemu.errors import MissingPackage
from tcemu.grade import compilers, marking
from tcemu.grade.box import Limits, Seat
from tcemu.grade.marking import marks_of
from tcemu.grade.room import BoxUnavailable

pytestmark = [needs_box, pytest.mark.skipif(not cuda.available(), reason="needs the extra cuda")]

NAME, SETUP, CHECK = "dot_of_signs", "from tcemu.course import check", "check(dot_of_signs)"
HEAD = "__global__ void dot_of_signs(const unsigned* a, const unsigned* b, int* dots) {\n"
BODY = """    int differ = 0;
    for (int i = 0; i < 4; i++) differ += __popc(a[4 * threadIdx.x + i] ^ b[4 * threadIdx.x + i]);
    dots[threadIdx.x] = 128 - 2 * differ;
}
"""
RIGHT = f"%%cuda\n{HEAD}{BODY}"
SEAT = Seat(limits=Limits(cell=3, notebook=20, memory=1 << 30))


def mark_of(*cells, seat=SEAT):
    """The mark of a notebook that answers `dot_of_signs`."""
    (mark,) = marks_of("07_integers_bits", notebook(SETUP, *cells), {NAME: exercise(NAME)}, "ada", seat, "key")
    return mark


def told(source):
    """The state and the message of a cell."""
    mark = mark_of(source, CHECK)
    assert mark.state == "right" or not mark.points
    return mark.state, mark.says


HELPERS = """
template <class T> __device__ T twice(T x) { return T(2) * x; }
__global__ void other(int* x) { *x = 1; }
"""
ENDLESS = "template <int N> struct T { static const int v = T<N - 1>::v; };"
#: Right answers in unusual forms.
WAYS = [
    ("as it is asked for", RIGHT),
    ("a macro for __global__", f"%%cuda\n#define KERNEL __global__\n{HEAD.replace('__global__', 'KERNEL')}{BODY}"),
    ("a macro for both", f"%%cuda\n#define KERNEL __global__ void\n{HEAD.replace('__global__ void', 'KERNEL')}{BODY}"),
    ("empty lines first", f"\n  \n{RIGHT}"),
    ("launch bounds", f"%%cuda\n{HEAD.replace('void', 'void __launch_bounds__(32, 1)')}{BODY}"),
    ("C linkage", f'%%cuda --arch sm_80\nextern "C" {HEAD}{BODY}'),
    ("a namespace", f"%%cuda\nnamespace mine {{\n{HEAD}{BODY}}}"),
    ("helpers and a second kernel", f"%%cuda\n{HELPERS}{HEAD}{BODY.replace('2 * differ', 'twice(differ)')}"),
    ("a main that launches it", f"%%cuda\n{HEAD}{BODY}int main() {{ dot_of_signs<<<1, 32>>>(0, 0, 0); return 0; }}"),
    ("from right to left", f"%%cuda\n{HEAD}{BODY.replace('int i = 0; i < 4; i++', 'int i = 3; i >= 0; i--')}"),
    ("text", f"dot_of_signs = '''{HEAD}{BODY}'''"),
]  # fmt: skip


@rows("what, cell", WAYS, lambda what, _: what)
def test_a_right_answer_is_right_in_any_form(what, cell):
    check = CHECK if cell.startswith("%%cuda") else "check(dot_of_signs=dot_of_signs)"
    mark = mark_of(cell, check)
    assert (mark.state, mark.points) == ("right", mark.of), mark.says


#: Answers that are wrong or hostile: what earns nothing, and words of what the student reads.
LOST = [
    ("nothing is written", f"%%cuda\n{HEAD}}}", "open", "executes no instruction"),
    ("one word less", RIGHT.replace("i < 4", "i < 3"), "wrong", "dots at [0]"),
    ("outside the array", RIGHT.replace("dots[threadIdx.x]", "dots[32 + threadIdx.x]"), "wrong", "your cell:5"),
    ("does not compile", RIGHT.replace("int differ = 0;", "int differ = 0"), "wrong", "your cell:4"),
    ("another type", RIGHT.replace("int* dots", "float* dots"), "wrong", "argument 2, float* dots"),
    ("fewer arguments", RIGHT.replace("const unsigned* b, ", "").replace("^ b", "^ a"), "wrong", "takes 2 arguments"),
    ("a template", f"%%cuda\ntemplate <int N>\n{HEAD}{BODY}", "wrong", "template"),
    ("in Python", "def dot_of_signs(warp, a, b, dots):\n    pass", "wrong", "written in CUDA C++"),
    ("no target", RIGHT.replace("%%cuda", "%%cuda --arch sm_999"), "wrong", "no target"),
    ("half a quotation", RIGHT.replace("%%cuda", "%%cuda -D 'X"), "wrong", "Your cell cannot be used"),
    ("it never ends", f"%%cuda\n{HEAD}while (true) dots[threadIdx.x] = b[0];\n}}", "wrong", "does not finish"),
    ("lanes wait for each other", f"%%cuda\n{HEAD}if (threadIdx.x) while (atomicAdd(dots, 0) == 0);\n}}", "wrong",
     "flag-never-set"),
    ("templates without end", f"%%cuda\n{ENDLESS}\n{HEAD}dots[0] = T<0>::v;\n}}", "wrong", "NVRTC"),
    ("PTX that is none", f'%%cuda\n{HEAD}asm volatile("}}}} }} .entry {{{{ %%r99");\n}}', "wrong", "PTX of your cell"),
    ("text that is not UTF-8", f"%%cuda\n// \ud800\n{HEAD}{BODY}", "wrong", ""),
]  # fmt: skip


@rows("what, cell, state, words", LOST, lambda what, *_: what)
@pytest.mark.slow
def test_what_is_wrong_earns_nothing_and_is_told(what, cell, state, words):
    found, says = told(cell)
    assert found == state, says
    assert words in says, says


#: Bodies of a __device__ function, where a function is asked for: the state, words of what the student reads.
DEVICE = [
    ("return k - 2 * ones;", "right", "Right in"),
    ("return k - ones;", "wrong", "384 of 387 cases are wrong"),
    ("while (true) ones++; return 0;", "wrong", "gives nothing back"),
    ("", "open", "no body yet"),
    ("return k - 2 * ones", "wrong", "your cell:2: expected a"),
]


@rows("body, state, words", DEVICE, lambda body, *_: body)
def test_a_device_function_is_marked_as_one_in_python(body, state, words):
    asked = {"dot_from_popc": exercise("dot_from_popc")}
    cells = (f"%%cuda\n__device__ int dot_from_popc(int k, int ones) {{ {body} }}", "check(dot_from_popc)")
    (mark,) = marks_of("07_integers_bits", notebook(SETUP, *cells), asked, "ada", SEAT, "key")
    assert (mark.state, mark.points) == (state, mark.of if state == "right" else mark.points)
    assert words in mark.says


#: Ways to have the compiler read another file, whose lines it would quote.
READS = [
    '#include "{}"', '/**/#include "{}"', '#/**/include "{}"', '%:include "{}"', '#include <{}>', '#inc\\\nlude "{}"',
    '/* \\\n#include "{}"\n*/\n/**/#include "{}"', '#define F "{}"\n#include F', '# 1 "{}"\nint 5x;\n#include "{}"',
    '#if __has_include("{}")\n#include "{}"\n#endif\nint 5x;',
]  # fmt: skip


@pytest.mark.slow
def test_no_source_reads_this_machine_s_files(tmp_path, monkeypatch):
    """Neither from the compiler's box nor from the process that marks."""
    secret = tmp_path / "grades.csv"
    secret.write_text("ada,quiet_secret\n")
    monkeypatch.chdir(tmp_path)
    cuda.compile("__global__ void first() {}")  # a compiler without a box runs already
    for way in READS:
        for path in (secret, secret.name):
            state, says = told(f"%%cuda\n{way.format(path, path)}\n{HEAD}{BODY}")
            assert "quiet_secret" not in says
            assert state == "wrong", (way, says)


@pytest.mark.slow
def test_time_of_the_compiler_and_of_the_kernel_counts():
    """Both cost the exercise alone, and what follows is marked."""
    slow = "constexpr long f(long n) { long s = 0; for (long i = 0; i < n; i++) s += i * i % 7; return s; }\n"
    sums = "".join(f"constexpr long x{n} = f({900_000 + n});\n" for n in range(400))
    printing = 'while (true) printf("%d %d\\n", 1, 2);\n'
    for cell in (f"%%cuda\n{slow}{sums}{HEAD}{BODY}", f"%%cuda\n{HEAD}{printing}}}"):
        found, says = told(cell)
        assert found in ("failed", "wrong"), says
        assert "does not finish" in says or "did not finish within 3 seconds" in says or "NVRTC" in says, says
    mark = mark_of(f"%%cuda\n{HEAD}{printing}}}", CHECK, RIGHT, CHECK, seat=Seat(limits=Limits(cell=3, notebook=40)))
    assert mark.state == "right", mark.says


def test_without_nvrtc_the_teacher_is_told(monkeypatch):
    """It is no answer's fault, so nobody gets a zero."""

    def missing():
        raise MissingPackage("CUDA C++ needs NVRTC")

    monkeypatch.setattr(marking, "toolkit", missing)
    with pytest.raises(BoxUnavailable, match=r"answers in CUDA C\+\+ cannot be marked here: CUDA C\+\+ needs NVRTC"):
        mark_of(RIGHT, CHECK)
    assert toolkit.available()


def test_the_time_of_a_compiler_that_has_ended_stays_as_it_was(monkeypatch):
    """Its number may belong to another process by then."""
    child = Child("import sys; sys.stdin.read()")
    monkeypatch.setattr(compilers, "_running", {child: 0.0})
    monkeypatch.setattr(compilers, "processor_time", lambda _: 1000.0)
    while_it_runs = compilers.judging()
    child.stop()
    monkeypatch.setattr(compilers, "processor_time", lambda _: 5000.0)
    assert 1000 < while_it_runs <= compilers.judging() < 5000
