"""What NVRTC says, as messages: the line of the cell or file, the sentence, and the source with a caret."""

from __future__ import annotations

import linecache
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from tcemu.cuda import spelling
from tcemu.cuda.host_code import SILENT
from tcemu.cuda.toolkit import OWN
from tcemu.errors import CompilationError, PtxError, counted, listing
from tcemu.tracebacks import place

#: Messages shown at most.
_SHOWN = 8
_HEAD = re.compile(
    r"^(?P<file>.+)\((?P<line>\d+)\): (?P<kind>(?:catastrophic |internal )?error|warning)(?: #[\w-]+)?: (?P<said>.*)$"
)
#: What is said about a line beside a complaint; it says nothing new about CUDA's headers and built-in operators.
_NOTE = re.compile(r"^(?P<file>.+)\((?P<line>\d+)\): note(?: #[\w-]+)?: (?P<said>.*)$")
_KNOWN = re.compile(r"^(?:.*[\\/]nvidia[\\/].*|__nv_\w+\.h)\(|note #3328-D: built-in ")
#: A complaint about no line.
_AT_END = re.compile(r"^At end of source: error: .*$", re.MULTILINE)
_NO_FILE = re.compile(r'cannot open source file "([^"]+)"')
#: What helps, by what NVRTC says; the first that fits is shown.
_ADVICE = {
    r'cannot open source file "(curand\w*\.h)"': (
        "{0} belongs to cuRAND, which is a package of its own: `pip install nvidia-curand`"
    ),
    r'cannot open source file "((?:cute|cutlass)/[^"]+)"': (
        "{0} belongs to CUTLASS: get its repository, and say where it is, include='cutlass/include' "
        "(in a cell: %%cuda -I cutlass/include)"
    ),
    r'cannot open source file "(hip/[^"]+)"': "{0} is for AMD's GPUs; tcemu compiles CUDA C++",
    r'cannot open source file "([^"]+)"': (
        "{0} is none of CUDA's headers; include=[FOLDER] adds a folder (in a cell: %%cuda -I FOLDER)"
    ),
    r"device-side kernel launch|identifier \"cuda(?:DeviceSynchronize|StreamCreate\w*)\" is undefined": (
        "A kernel cannot launch another here (no dynamic parallelism); launch both from Python, one after the other"
    ),
    r"no storage class or type specifier\n\s*(\w+) *<<<": (
        "The launch of {0} is in no function. Python launches it, in another cell: {0}[grid, block](...), with numpy "
        "arrays as arguments"
    ),
    r"no storage class or type specifier\n\s*(cuda\w+) *\(": (
        "{0} is in no function, and not needed: a kernel gets numpy arrays as its arguments"
    ),
    r'identifier "__(shfl(?:_up|_down|_xor)?|any|all|ballot)" is undefined': (
        "CUDA has __{0}_sync instead, whose first argument is a mask of lanes: 0xffffffff for the whole warp"
    ),
    r'"(tex[123]D\w*|surf[123]D\w*)"|"texture" is|(texture) is not a template': (
        "tcemu has no textures or surfaces; pass an array, and index it"
    ),
    r'identifier "(cuda(?:Malloc|Free|Memcpy|Memset|GetLastError)\w*)" is undefined': (
        "{0} is for the host; a kernel gets numpy arrays as its arguments, and malloc and new work in it"
    ),
    r'identifier "(concept|requires|consteval|constinit)" is undefined': (
        "{0} is of C++20: options=['-std=c++20'] (in a cell: %%cuda -std=c++20)"
    ),
    r'identifier "(import|from|def|print)" is undefined': (
        "{0} is Python's; a cell that begins with %%cuda is CUDA C++ to its end, and Python goes into another one"
    ),
    r'identifier "(lt|gt|amp|quot)" is undefined\n.*&\1;': (
        "&{0}; is HTML's way to write a sign: copy the text as it is shown"
    ),
    r"operand types are: .*\b(?:uint3|dim3)\b": (
        "threadIdx, blockIdx, blockDim and gridDim have three parts, each a number: threadIdx.x comes first"
    ),
    r"operand types are: (half|__half|__nv_bfloat16) [-+*/] (?:double|float|int)|"
    r"operand types are: (?:double|float|int) [-+*/] (half|__half|__nv_bfloat16)": (
        "Both operands must be of one type: write the number as {0}{1}(1.5f)"
    ),
    r"expression must have a constant value\n.*\[": (
        "The compiler must know the size of an array: a number, constexpr or a template's argument. For shared memory "
        "whose size the launch decides: extern __shared__ float name[]; and shared= of the launch, in bytes"
    ),
    r"unrecognized option (\S+) found": (
        "{0} is no option of NVRTC, the compiler; in a cell, %%cuda --help shows what there is"
    ),
    r"invalid value for --std": "NVRTC knows -std=c++11, 14, 17, 20 and 23; without it, C++17 is tried, then C++20",
    r'namespace "thrust" has no member "(\w+)"': (
        "thrust::{0} is not there: Thrust's algorithms are left out, also those of thrust::seq. CUB has what warps and "
        "blocks do: #include <cub/cub.cuh>"
    ),
    r'namespace "std" has no member "(\w+)"': (
        "std::{0} is for the host only; a kernel uses arrays, cuda::std and what CUDA has"
    ),
}
#: The header that declares what a source uses without it.
_DECLARED = {
    r'"cooperative_groups" has no member "(?:memcpy_async|wait|wait_prior)"': "cooperative_groups/memcpy_async.h",
    r'"cooperative_groups" has no member "(?:inclusive|exclusive)_scan"': "cooperative_groups/scan.h",
    r'"cooperative_groups" has no member "(?:reduce|plus|greater|less)"': "cooperative_groups/reduce.h",
    r'"(?:cooperative_groups|nvcuda::wmma)" has no member': "",  # it has declared the others
    r"\b(?:nvcuda|wmma)\b": "mma.h",
    r"\bcurand\w+": "curand_kernel.h",
    r"\bCUtensorMap\b": "cuda.h",
    r"\b__nv_bfloat16\w*|\bnv_bfloat16\w*|\b__float2bfloat16\w*|\b__bfloat16\w*": "cuda_bf16.h",
    r"\b__nv_fp8\w*": "cuda_fp8.h",
    r"\b__nv_fp4\w*": "cuda_fp4.h",
    r"\b(?:__)?half2?\b|\bmake_half2\b|\b__(?:float2?|int|h)2?half\w*|\b__h(?:add|mul|fma|alf)\w*": "cuda_fp16.h",
    r"\bcooperative_groups\b|\bcg::": "cooperative_groups.h",
    r"\bcuda::barrier\b": "cuda/barrier",
    r"\bcuda::(?:pipeline|make_pipeline)": "cuda/pipeline",
    r"\bcuda::atomic": "cuda/atomic",
    r"\b__pipeline_\w+": "cuda_pipeline.h",
    r"\bcub::": "cub/cub.cuh",
    r"\bcu(?:Float|Double)Complex\b|\bmake_cu\w+Complex\b": "cuComplex.h",
}
#: What NVRTC says where a declaration is missing.
_UNDECLARED = re.compile(
    r"is undefined|complete (?:object )?type|namespace name|has no member|does not apply here|is not a template"
)
_UNKNOWN = re.compile(r'(?:identifier|template) "(\w+)" is undefined|"(\w+)" is not a t')
EMPTY: Mapping[str, range] = MappingProxyType({})
_NAMES = "__nv_name_map"  # NVRTC's file of name expressions


@dataclass(frozen=True)
class Message:
    """One complaint; `excerpt` is the source line and the caret below it, and where templates were instantiated."""

    file: str
    line: int
    error: bool
    said: str
    excerpt: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([f"{place(self.file, self.line)}: {self.said}", *self.excerpt])


def messages(log: str) -> Iterator[Message]:
    """The complaints of NVRTC's log, in order; what is said between them belongs to the one before."""
    begun, more = None, list[str]()
    for text in [*log.splitlines(), "end(0): error: "]:
        head = _HEAD.match(text)
        if head is None:
            more.append(text.rstrip())
            continue
        if begun is not None:
            file, line = begun["file"], int(begun["line"])
            excerpt = tuple(_as_written(file, line, each) for each in _kept(more))
            yield Message(file, line, "error" in begun["kind"], begun["said"], excerpt)
        begun, more = head, []


def _as_written(file: str, line: int, shown: str) -> str:
    """A line of a complaint; the user's own as it stands there, not with blanks for what was left out."""
    written = f"  {linecache.getline(file, line).rstrip()}"
    blanked = len(shown) <= len(written) and shown.strip() != ""
    same = blanked and all(one in (" ", other) for one, other in zip(shown, written, strict=False))
    return written if same else shown


def _kept(lines: Iterable[str]) -> Iterator[str]:
    """What belongs to a complaint: the text up to an empty line, without remarks and notes on CUDA's headers."""
    known = False
    for text in lines:
        if not text.strip():
            return
        note = _NOTE.match(text)
        if not text.startswith(" "):
            known = bool(note and _KNOWN.search(text))
        if not known and not re.match(r"Remark: |Compilation terminated|\d+ errors? detected", text):
            yield f"{place(note['file'], int(note['line']))}: note: {note['said']}" if note else text


def error(
    log: str,
    failed: str = "",
    advised: str = "",
    earlier: Sequence[str] = (),
    source: str = "",
    gone: Mapping[str, range] = EMPTY,
) -> CompilationError:
    """The error that shows what NVRTC said, last and, in `earlier` logs, before more of the host's code was left out.

    What it has said from the start is shown; if there is nothing of that kind, what it said last, and which headers it
    did not find. `source` is the text; `gone` are the lines of what was left out of it, by name: if it is that which is
    missing, what was wrong with it comes first.
    """
    errors = [each for each in messages(log) if each.error]
    before = [[each for each in messages(other) if each.error] for other in earlier]
    lasting = [each for each in errors if before and each in before[0]]
    headers = [each for each in chain(*before) if _NO_FILE.search(each.said) and not lasting]
    missing = [name for each in errors for name in undefined(each.said) if name in gone]
    causes = [each for each in chain(*before[:1]) if any(each.line in gone[name] for name in missing)]
    errors = _first_of_their_line([*causes, *(lasting or errors), *headers])
    shown = [str(each) for each in errors[:_SHOWN]] or list(dict.fromkeys(_AT_END.findall(log)))
    left = f"... and {counted(len(errors) - _SHOWN, 'error')} more" if len(errors) > _SHOWN else ""
    hint = advised or _foreign(errors) or advice(log) or next(filter(None, (advice(str(each)) for each in headers)), "")
    if missing and not causes:
        hint = (
            f"{missing[0]} is host code and left out: what a kernel uses has __device__ and nothing of the host in it"
        )
    elif source and not hint:
        hint = spelling.annotation(source) or _unclosed(source, shown)
    meant = _misspelt(errors, source, hint) if source and not hint.startswith("#include") and not missing else ""
    text = "\n\n".join(filter(None, [*(shown or [log.strip() or failed]), left, hint, meant]))
    made = CompilationError(text)
    made.verbatim = True
    return made


def _unclosed(source: str, shown: Sequence[str]) -> str:
    """Which brackets of a source that has no end are not closed."""
    if not any("At end of source" in each for each in shown):
        return ""
    opened: list[int] = []
    for bracket in re.finditer("[{}]", SILENT.sub(lambda each: re.sub(r"[^\n]", " ", each[0]), source)):
        if bracket[0] == "{":
            opened.append(source.count("\n", 0, bracket.start()) + 1)
        elif opened:
            opened.pop()
    lines = "line" if len(opened) == 1 else "lines"
    return f"No }} closes what {{ begins in {lines} {listing(map(str, opened), 'and')}" if opened else ""


def _misspelt(errors: Sequence[Message], source: str, hint: str) -> str:
    """What may be wrong with the first name that nobody has declared, unless the hint is about it."""
    name = next((name for each in errors for name in undefined(each.said)), "")
    if not name or name in hint:
        return ""
    if re.search(rf"\b{name}\s*\([^;{{}}]*\)\s*\{{", SILENT.sub("", source)):
        return f"{name} is defined below its use: move it up, or declare it first"
    return spelling.meant(name, source)


def _first_of_their_line(errors: Iterable[Message]) -> list[Message]:
    """The messages without those that repeat one about the same line."""
    first: dict[tuple[str, int, str], Message] = {}
    for each in errors:
        first.setdefault((each.file, each.line, each.said), each)
    return list(first.values())


def _foreign(errors: Iterable[Message]) -> str:
    """Letters that NVRTC does not know outside comments and strings: which, and what to do."""
    if any(each.excerpt and each.excerpt[0].startswith("  ```") for each in errors):
        return "``` is Markdown's, and no part of the program"
    lines = "".join(each.excerpt[0] for each in errors if each.said == "unrecognized token" and each.excerpt)
    letters = dict.fromkeys(each for each in SILENT.sub("", lines) if not each.isascii())
    if not letters:
        return ""
    named = listing((f"{each!r} ({unicodedata.name(each, 'a character').lower()})" for each in letters), "and")
    return (
        f"NVRTC does not know {named} outside comments and strings: names have ASCII letters, and quotes are ' and \""
    )


def warnings(log: str, whole: str = "") -> tuple[Message, ...]:
    """Warnings about the user's own lines: not about CUDA's headers.

    `whole` is a source of which something was left out, or was not compiled yet, as templates; it may use more names.
    """
    own = str(OWN.parent)
    others = (each for each in messages(log) if not each.error)
    mine = (each for each in others if "nvidia" not in Path(each.file).parts and own not in each.file)
    return tuple(each for each in mine if not _needed(each, whole))


def _needed(warning: Message, whole: str) -> bool:
    """Whether what looks unused is a kernel, or has a use in what was left out."""
    unused = re.search(r'(function|variable) "(?:.*::)?(\w+)(?:\(.*\))?" was declared but never', warning.said)
    if not unused:
        return False
    kernel = "__global__" in "".join(warning.excerpt)
    return (kernel and unused[1] == "function") or len(re.findall(rf"\b{unused[2]}\b", SILENT.sub("", whole))) > 1


def in_asm(error: PtxError, text: str) -> PtxError:
    """The error for PTX that an asm statement wrote: at the line of the statement."""
    before = "\n".join(text.splitlines()[: error.line])
    last = re.findall(r"^\s*\.loc\s+(\d+)\s+(\d+)", before, re.MULTILINE)[-1:]
    files = dict(re.findall(r'^\s*\.file\s+(\d+)\s+"(.*?)"', text, re.MULTILINE))
    where = next((f"{place(files[file], int(line))}: asm: " for file, line in last if file in files), "")
    return PtxError(f"{where}{error}", error.line)


def lacks_std(log: str) -> bool:
    """Whether a name of std is missing, which nvcc knows from headers that it includes by itself."""
    return bool(re.search(r'(?:namespace "std" has no|qualified name is not allowed)', log))


def ambiguous(log: str) -> bool:
    """Whether a number of 16 bits is converted in more ways than one."""
    return bool(re.search(r"more than one (?:[^\n]*\n){1,8}[^\n]*(?:__half|__nv_bfloat16|c10::)", log))


def refuses_restrict(log: str) -> bool:
    """Whether `__restrict__` stands behind what is no pointer, which nvcc takes."""
    return '"restrict" is not allowed' in log


def gave_up(log: str) -> bool:
    """Whether the compiler found so many errors that it stopped looking."""
    return "Error limit reached" in log


def absent_header(log: str) -> str:
    """The header that NVRTC did not find; empty if it found all."""
    named = _NO_FILE.search(log)
    return named[1] if named else ""


def undefined(said: str) -> list[str]:
    """The names that a complaint says nobody has declared."""
    return ["".join(each) for each in _UNKNOWN.findall(said)]


def advice(log: str) -> str:
    """What to do about what NVRTC says; empty if there is nothing to add."""
    for said, text in _ADVICE.items():
        if fits := re.search(said, log):
            return text.format(*fits.groups(default=""))
    first = next((each for each in messages(log) if each.error), None)
    if first is None or not _UNDECLARED.search(first.said):
        return ""
    said = "\n".join([first.said, *([] if first.said.startswith("identifier") else first.excerpt[:1])])
    header = _declaring(said)
    return f"#include <{header}> declares it" if header else ""


def _declaring(said: str) -> str:
    """The header that declares a name of CUDA; empty if it is none."""
    return next((header for names, header in _DECLARED.items() if re.search(names, said)), "")


def wrong_lines(log: str, file: str) -> frozenset[int]:
    """The lines of a file that have errors."""
    return frozenset(each.line for each in messages(log) if each.error and each.file == file)


def wrong_files(log: str) -> frozenset[str]:
    """The files that have errors."""
    return frozenset(each.file for each in messages(log) if each.error)


def names_wrong(log: str) -> bool:
    """Whether the errors are about name expressions, so that the source itself compiles."""
    errors = [each for each in messages(log) if each.error]
    return bool(errors) and all(each.file == _NAMES for each in errors)


def unknown_argument(log: str, template: str) -> str:
    """The complaint about a name among a template's arguments; empty if the template itself does not fit."""
    said = next((each.said for each in messages(log) if each.error), "")
    missing = re.search(r'identifier "(\w+)" is undefined', said)
    if not missing or missing[1] == template:
        return ""
    if header := _declaring(missing[1]):
        return f"nothing declares {missing[1]}; #include <{header}> does."
    return f"{missing[1]} is no name at file scope; write its value, as in gemm<64>."


def not_found(headers: Sequence[str]) -> str:
    """What to do about headers that were left out because they are not there; empty if there are none."""
    told = [advice(f'cannot open source file "{each}"') for each in headers]
    packaged = (text for text in told if "none of CUDA's headers" not in text)
    return next(packaged, told[0] if told else "")
