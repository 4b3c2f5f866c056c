"""What of a CUDA C++ file is for the device: NVRTC compiles no host code, and a pasted file is full of it.

`main`, launches with `<<<...>>>`, std::vector and calls of the runtime are left out; every line keeps its number.
Functions without `__device__` stay if nothing in them is for the host only: kernels call such helpers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

from tcemu.cuda.one_branch import one_branch
from tcemu.extras import require

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

#: Files of the user: path and text, by the name that an #include has for them.
Files = dict[str, tuple[str, str]]
#: What stands before the body of a function that a GPU can run.
_DEVICE = re.compile(r"\b(__global__|__device__|constexpr|consteval)\b")
_ANNOTATED = re.compile(r"\b__(?:global|device|constant)__\b")
#: Names that only a host has: of the runtime and NVIDIA's libraries, of C++'s library, of C's.
_HOST = re.compile(
    r"<<<|\b(?:cuda|cublas|cublasLt|cudnn|curand|cusparse|cusolver|nccl|nvtx|nvml)[A-Z]\w*"
    r"|\bcu(?:Init|Device|Ctx|Module|Launch|Mem|Stream|Event|Func|GetErrorString|TensorMapEncode)\w*"
    r"|\bstd::(?:vector|string|map|set|unordered_\w+|deque|list|queue|cout|cerr|clog|endl|\w*stream|chrono|random_device"
    r"|mt19937\w*|default_random_engine|\w+_distribution|thread|mutex|unique_ptr|shared_ptr|make_unique|make_shared"
    r"|function|\w*exception|\w+_error|to_string|sort|iota|generate|getline|setw|setprecision|filesystem|exit)\b"
    r"|\bthrust::|\bat::|\btorch::|\btvm::|\bpy::|\bPYBIND11_MODULE\b|\bTORCH_LIBRARY\w*"
    r"|\b(?:stderr|stdout|fopen|fprintf|fread|fwrite|fclose|exit|rand|srand|getenv|atoi|atof|strtol|getopt|getline|cout"
    r"|cerr|gettimeofday|clock_gettime|nanosleep|usleep)\b"
)
#: Types of the runtime, of cuRAND and of PyTorch that a kernel may have, too.
_SHARED = re.compile(
    r"\b(?:at|torch)::(?:Half|BFloat16|PhiloxCudaState|cuda::(?:philox|detail::(?:TensorInfo|IndexToOffset)))\b|"
    r"\bcuda(?:TextureObject_t|SurfaceObject_t)\b|\bCUtensorMap\b|\bcurand(?:State|Direction)\w*"
)
#: Members of a struct with a kernel's parameters that only its launch looks at.
_STREAM = re.compile(r"\bcuda(?:Stream|Event|Graph|GraphExec)_t\b")
_CLASS = re.compile(r"\s*(?:template\s*<[^{;]*>\s*)?(?:typedef\s+)?(?:struct|class|union)\b")
#: A macro with arguments, and lines at file scope that are a call of one.
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\((?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
#: A macro that is nothing but words: other macros, or what annotates.
_WORDS = re.compile(r"define[ \t]+\w+(?:[ \t]+\w+)+[ \t]*\Z")
#: A macro that is a pragma, which nvcc takes for one: gcc puts it in its place before the compiler reads the line.
_PRAGMA = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(#[ \t]*pragma\b[^\n]*)", re.MULTILINE)
_CALL = re.compile(r"^(\w+)\((?:[^(){};#]|\([^(){};#]*\))*\)[ \t]*;?[ \t]*$", re.MULTILINE)
#: What the parser need not see: strings of PTX, with #if between them.
_ASM = re.compile(
    rb"\b(?:asm|__asm__)\b\s*(?:(?:volatile|__volatile__)\s*)?"
    rb"\((?:[^()\"]++|\"(?:[^\"\\]|\\.)*+\"|\([^()]*+\))*+\)"
)
#: What says nothing about a part: comments and strings.
SILENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"", re.DOTALL)
#: What follows the name of a type rather than `*`, `&` or `* const`.
_RESTRICT = re.compile(r"(?<=[\w>]\s)(?<!const\s)(?<!volatile\s)\s*__restrict(?:__)?\b")
#: What nvcc's --extended-lambda wants and NVRTC, for which all is for the device, refuses: [=] __device__ (int x).
_LAMBDA = re.compile(r"(?<=\])(\s*)((?:__(?:host|device)__\s*)+)(?=[({])")
#: What nvcc's --expt-relaxed-constexpr calls from kernels and NVRTC refuses: __host__ consteval int f().
_SPECIFIERS = re.compile(
    r"(?:\b(?:static|inline|friend|__forceinline__|__noinline__|constexpr|consteval|__host__|__device__)\s+){2,}"
)
#: What gcc, and so nvcc, takes from C and NVRTC refuses: x = (float4){1, 2}; but not operator=(float4) {.
_LITERAL = re.compile(
    r"((?:(?<!operator)(?<!operator\W)(?<!operator\W\W)[=,(?:{]|\breturn)\s*)"
    r"\((?:const\s+|struct\s+)*((?:typename\s+)?[A-Za-z_][\w:]*(?:<[^(){};]*>)?)\s*\)(?=\s*\{)"
)
#: gcc's ({ int y = x; y + 1; }), whose last statement is its value: where its words begin.
_STATEMENTS = re.compile(r"\(\{(?=[^{}]*;)")
#: A macro that annotates, such as HOST: nothing but words, __host__ among them and __device__ not.
_HOST_WORDS = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+((?!.*__device__)(?:\w+[ \t]+)*__host__(?:[ \t]+\w+)*)[ \t]*$", re.MULTILINE
)
#: What stays of a part that is left out: the file's other #if and #endif are about it.
_CONDITION = re.compile(rb"^[ \t]*#[ \t]*(?:if|el|endif)\w*\b(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
_AHEAD = re.compile(rb"^(?![ \t]*#)[^\n]*\b(__(?:global|device)__)\s*\Z", re.MULTILINE)
_HEADLESS = re.compile(rb"\btemplate\s*<[^;{}()]*>\s*\Z")
_WORD = re.compile(r"[A-Za-z_]\w*")
#: What a file, a namespace, extern "C" {}, a template and #if hold, one inside another.
_OUTER = {
    "translation_unit", "namespace_definition", "declaration_list", "linkage_specification",
    "preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif",
    "ERROR",  # what the parser takes the rest of a file for after an #if between template<...> and its function
}  # fmt: skip
_PARTS = {
    "function_definition", "declaration", "struct_specifier", "class_specifier", "type_definition", "alias_declaration",
    "using_declaration", "template_instantiation", "namespace_alias_definition",
    "expression_statement",  # a call of a macro that nobody has defined: REGISTER(f).set_name("f");
}  # fmt: skip
#: What is no name, where the parser takes it for one.
_KEYWORDS = {"auto", "bool", "char", "const", "double", "float", "int", "long", "noexcept", "operator", "short", "void"}
#: They repeat the name of something else.
_NAMELESS = {"using_declaration", "template_instantiation", "expression_statement"}


@dataclass(frozen=True)
class Part:
    """A function, variable or class at file scope. Bytes of the source, lines from 1, both ends included."""

    name: str
    text: str
    start: int
    end: int
    first: int
    last: int
    #: what decides whether a device can use it: its own words, without those of a function that is annotated
    device: bool
    #: a variable that is constexpr, which may be for the host all the same
    constant: bool = False


@dataclass(frozen=True)
class Macros:
    """What the macros of a source and of the files that it includes are for."""

    #: those that annotate: `#define DEVICE __device__`, `#define KERNEL(name) __global__ void name(int* x)`
    annotating: frozenset[str] = frozenset()
    #: those with arguments that make host code
    host: frozenset[str] = frozenset()
    #: those that are a pragma, and which
    pragmas: Mapping[str, str] = field(default_factory=dict)
    #: those that annotate what is for the host alone: `#define HOST inline __host__`
    words: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, *sources: str) -> Macros:
        """The macros of several files."""
        macros = [(match[1], match[0]) for source in sources for match in _MACRO.finditer(source)]
        annotating = frozenset(name for name, text in macros if re.search("__(?:device|global)__", text))
        named = {name: set(text.split()[2:]) for name, text in macros if _WORDS.search(text)}
        while more := {name for name, words in named.items() if words & annotating} - annotating:
            annotating |= more
        called = (match for source in sources for match in _DEFINE.finditer(source))
        host = frozenset(match[1] for match in called if _HOST.search(match[0])) - annotating
        pragmas = (match for source in sources for match in _PRAGMA.finditer(source))
        words = (match for source in sources for match in _HOST_WORDS.finditer(source))
        return cls(annotating, host, {match[1]: match[2] for match in pragmas}, {match[1]: match[2] for match in words})


@dataclass(frozen=True)
class DeviceSide:
    """The source for NVRTC, with as many lines as the file; the names of what was left out, and the lines of each."""

    text: str
    left_out: tuple[str, ...]
    lines: Mapping[str, range]


def device_side(source: str, wrong: Collection[int] = (), macros: Macros | None = None) -> DeviceSide:
    """Leave out what is for the host: what uses names that only a host has, and what uses that in turn.

    `wrong` are lines at which the compiler stumbled; functions that hold them are left out too, unless they are
    annotated, if only by a macro. `macros` are those of the source and of the files beside it. A file that has no host
    code comes back as it is.
    """
    macros = macros or Macros.of(source)
    annotated, called = _without_calls(_with_pragmas(source, macros.pragmas), macros.host)
    annotated = _with_values(_with_words(annotated, macros.words))
    plain = _LAMBDA.sub(lambda match: match[1] + re.sub(r"[^\n]", " ", match[2]), annotated)
    plain = _SPECIFIERS.sub(_of_either_side, plain)
    plain = _LITERAL.sub(lambda match: f"{match[1]} {match[2]} ", plain)
    raw = plain.encode()
    parts = list(_parts(raw))
    kept = {part for part in parts if _kept(part, macros.annotating)}
    gone = {part for part in parts if part not in kept and _host(part)}
    gone |= {part for part in parts if (part not in kept or part.constant) and _holds(part, wrong)}
    while True:
        names = {part.name for part in gone} - {part.name for part in parts if part not in gone} - {""}
        more = {part for part in parts if part not in gone | kept and names & _words(part)}
        if not more:
            break
        gone |= more
    text = bytearray(raw)
    for part in gone:
        # where the parser has lost its way, the template<...> of a function is no part of it
        start = match.start() if (match := _HEADLESS.search(raw, max(part.start - 400, 0), part.start)) else part.start
        text[start : part.end] = _blank(raw[start : part.end])
    ordered = sorted(gone, key=lambda part: part.start)
    lines = {part.name: range(part.first, part.last + 1) for part in ordered if part.name}
    return DeviceSide(text.decode(), tuple(dict.fromkeys([*called, *lines])), lines)


def _of_either_side(specifiers: re.Match[str]) -> str:
    """The words before a function, without `__host__` if it is constexpr."""
    words = specifiers[0]
    constant = "const" in words and "__device__" not in words
    return words.replace("__host__", " " * len("__host__")) if constant else words


def _blank(raw: bytes) -> bytes:
    """Spaces, and the lines with conditions for the preprocessor."""
    text = bytearray(re.sub(rb"[^\n]", b" ", raw))
    for match in _CONDITION.finditer(raw):
        text[match.start() : match.end()] = match[0]
    return bytes(text)


def without_restrict(source: str, files: Files) -> tuple[str, Files]:
    """A source and its headers without `__restrict__` behind what is no pointer: half __restrict__ (*tile)[32]."""

    def plain(text: str) -> str:
        return _RESTRICT.sub(lambda each: " " * len(each[0]), text)

    return plain(source), {name: (path, plain(text)) for name, (path, text) in files.items()}


def directives(header: str) -> str:
    """What a header for the host says to the preprocessor, such as macros for kernels; empty if it has nothing else."""
    text = SILENT.sub(lambda each: each[0] if each[0][0] == '"' else " ", header)
    kept = "".join(match[0] + "\n" for match in _DIRECTIVE.finditer(text))
    return "" if kept == header else kept


def mentions_device(header: str) -> bool:
    """Whether a header has anything that is for the device alone or for both sides, also by a macro of its library."""
    return bool(re.search(r"__device__|__global__|_DEVICE\b|\bDEVICE\b", SILENT.sub("", header)))


@cache
def _parser() -> Parser:
    """A parser of CUDA C++, which recovers from what it does not know."""
    require("cuda", "CUDA C++ with host code", "tree_sitter", "tree_sitter_cuda")
    import tree_sitter
    import tree_sitter_cuda

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language()))


def _parts(raw: bytes) -> Iterator[Part]:
    hidden = one_branch(_ASM.sub(lambda match: re.sub(rb"[^\n]", b" ", match[0]), raw))
    yield from _inside(_parser().parse(hidden).root_node, raw)


def _inside(outer: Node, raw: bytes) -> Iterator[Part]:
    for node in outer.named_children:
        inner = node
        while inner.type == "template_declaration" or _of_one(inner):
            inner = inner.named_children[-1]
        if inner.type in _PARTS or _declares_member(inner):
            part = _part(node, inner, raw)
            yield part
            body = inner.child_by_field_name("body")
            if body is not None and body.type == "field_declaration_list":
                # a class may stay: its members for the host go one by one, and nobody else for their names
                yield from (replace(each, name="") for each in _inside(body, raw))
        elif node.type in _OUTER:
            yield from _inside(node, raw)


def _declares_member(node: Node) -> bool:
    """Whether it declares a function of a class, which is defined elsewhere."""
    inner = node.child_by_field_name("declarator") if node.type == "field_declaration" else None
    while inner is not None and inner.type in ("pointer_declarator", "reference_declarator"):
        inner = inner.named_children[-1]
    if inner is None or inner.type != "function_declarator":
        return False
    return inner.named_children[0].type != "parenthesized_declarator"  # a pointer to a function is data


def _of_one(node: Node) -> bool:
    """Whether it is extern "C" before a single declaration, without braces."""
    return node.type == "linkage_specification" and node.named_children[-1].type in _PARTS


def _part(node: Node, inner: Node, raw: bytes) -> Part:
    body = inner.child_by_field_name("body")
    # where the parser has lost its way, __global__ may stand before what it takes for the function
    before = max(node.start_byte - 200, 0)
    start = match.start(1) if (match := _AHEAD.search(raw, before, node.start_byte)) else node.start_byte
    head = raw[start : body.start_byte if body else node.end_byte].decode(errors="replace")
    text = SILENT.sub(" ", raw[node.start_byte : node.end_byte].decode(errors="replace"))
    end = node.end_byte + (raw[node.end_byte : node.end_byte + 1] == b";")
    # a class may have members for either side, and is kept if one is for the device
    device = bool(_DEVICE.search(text if "specifier" in inner.type else head))
    if body is not None and body.type == "field_declaration_list":
        text = SILENT.sub(" ", _without_functions(node, body, raw))  # it goes whole if its data is for the host
    constant = inner.type == "declaration" and not _ANNOTATED.search(head)
    places = node.start_byte, end, node.start_point[0] + 1, node.end_point[0] + 1
    name = "" if inner.type in _NAMELESS else _name(inner)
    return Part(name, text, *places, device, constant)


def _without_functions(node: Node, body: Node, raw: bytes) -> str:
    """The text of a class without its functions."""
    pieces, at = [], node.start_byte
    for each in body.named_children:
        inner = each.named_children[-1] if each.type == "template_declaration" else each
        if inner.type == "function_definition" or _declares_member(inner):
            pieces.append(raw[at : each.start_byte])
            at = each.end_byte
    return b" ".join([*pieces, raw[at : node.end_byte]]).decode(errors="replace")


def _name(node: Node) -> str:
    """The name that a definition gives: of a function, without namespaces and parameters."""
    for place in ("declarator", "name"):
        inner = node.child_by_field_name(place)
        if inner is not None:
            return _name(inner)
    words = _WORD.findall((node.text or b"").decode(errors="replace"))
    return words[-1] if words and words[-1] not in _KEYWORDS else ""


def _with_pragmas(source: str, pragmas: Mapping[str, str]) -> str:
    """A source with `#pragma unroll 4` for `UNROLL 4`."""
    if not pragmas:
        return source
    names = "|".join(map(re.escape, pragmas))
    return re.sub(rf"^([ \t]*)({names})\b", lambda each: each[1] + pragmas[each[2]], source, flags=re.MULTILINE)


def _with_words(source: str, words: Mapping[str, str]) -> str:
    """A source with `__host__` for a macro HOST, but where that is defined or asked for."""
    if not words:
        return source
    names = re.compile(rf"^[ \t]*#[^\n]*|\b(?:{'|'.join(map(re.escape, words))})\b", re.MULTILINE)
    return names.sub(lambda each: words.get(each[0], each[0]), source)


def _with_values(source: str) -> str:
    """A source with a function that is called, [&] { ...; return y; }(), for gcc's statements with a value."""
    for match in reversed(list(_STATEMENTS.finditer(source))):
        inner = source[match.end() :]
        depth, ends, end = 1, [0], -1
        for each in re.finditer(r"[{};]", inner):
            depth += {"{": 1, "}": -1, ";": 0}[each[0]]
            if depth == 0:
                end = each.start()
                break
            if depth == 1 and each[0] != "{":
                ends.append(each.end())
        close = re.match(r"\}[\s\\]*\)", inner[end:])
        if end < 0 or not close:
            continue
        last = next((at for at in reversed(ends) if inner[at:end].strip(" \t\n\\")), 0)
        body = f"{inner[:last]} return {inner[last:end]}"
        source = f"{source[: match.start()]}[&] {{{body}}}(){inner[end + len(close[0]) :]}"
    return source


def _without_calls(source: str, host: Collection[str]) -> tuple[str, list[str]]:
    """A file without lines that are calls of macros for the host, such as BINDING(f32, torch::kFloat32); which."""
    called: list[str] = []

    def left(match: re.Match[str]) -> str:
        if match[1] not in host:
            return match[0]
        called.append(match[1])
        return re.sub(r"[^\n]", " ", match[0])

    return _CALL.sub(left, source) if host else source, called


def _kept(part: Part, macros: frozenset[str]) -> bool:
    return part.device or not macros.isdisjoint(_WORD.findall(part.text.split("{", 1)[0]))


def _host(part: Part) -> bool:
    head = part.text.split("{", 1)[0]
    if "__host__" in head and "__device__" not in head:
        return True
    text = _SHARED.sub("", part.text)
    if _CLASS.match(text):
        text = _STREAM.sub("", text)
    return part.name == "main" or bool(_HOST.search(text))


def _holds(part: Part, lines: Collection[int]) -> bool:
    return any(part.first <= line <= part.last for line in lines)


def _words(part: Part) -> set[str]:
    return set(_WORD.findall(part.text)) - {part.name}
