"""NVRTC, CUDA's compiler: this module runs in a child process and calls its C functions.

A compiler may crash, hang or take all memory, and a notebook must survive that. The child imports nothing but Python's
own library, so it starts in a few hundredths of a second.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tcemu.child import pipes, receive, send

#: A kernel that is compiled before the first request: NVRTC is quicker after its first one.
_FIRST = "__global__ void first(float *x) { x[threadIdx.x] *= 2; }"
_OK = 0


@dataclass(frozen=True)
class Request:
    """A source to compile; `name` is what messages and source lines call it."""

    source: str
    name: str
    options: tuple[str, ...]
    #: text of files by the names by which #include asks for them
    headers: dict[str, str] = field(default_factory=dict)
    #: templates to instantiate: "gemm<64>"
    expressions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """What the compiler made, or an empty text and the log with the errors."""

    ptx: str
    log: str
    #: names in the PTX, by name expression
    lowered: dict[str, str] = field(default_factory=dict)
    #: NVRTC's name for what happened, "NVRTC_ERROR_COMPILATION"; empty if it compiled
    failed: str = ""


def main(library: str) -> None:
    """Answer requests until the other side is gone; the first message is NVRTC's version, or why it does not load."""
    requests, answers = pipes()
    try:
        nvrtc = Nvrtc(library)
    except OSError as error:
        send(answers, str(error))
        return
    os.chdir(Path(library).parent)  # a folder that the other side knows: NVRTC writes it before names of sources
    send(answers, nvrtc.version())
    nvrtc.compile(Request(_FIRST, "first.cu", ("--gpu-architecture=compute_80",)))
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            send(answers, nvrtc.compile(receive(requests)))


class Nvrtc:
    """The library, whose functions have C's types."""

    def __init__(self, library: str) -> None:
        if sys.platform == "win32":
            os.add_dll_directory(str(Path(library).parent))  # where its builtins lie
        self.library = ctypes.CDLL(library)
        self.library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def version(self) -> tuple[int, int]:
        """Such as (13, 4)."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        return major.value, minor.value

    def compile(self, request: Request) -> Answer:
        """PTX, or the errors."""
        return _with_letters(self._answer(_in_ascii(request))) if WINDOWS else self._answer(request)

    def _answer(self, request: Request) -> Answer:
        program = ctypes.c_void_p()
        names, texts = _strings(request.headers), _strings(request.headers.values())
        source, name = request.source.encode(), request.name.encode()
        code = self.library.nvrtcCreateProgram(ctypes.byref(program), source, name, len(names), texts, names)
        if code != _OK:
            return Answer("", "", failed=self._error_string(code))
        try:
            return self._compiled(program, request)
        finally:
            self.library.nvrtcDestroyProgram(ctypes.byref(program))

    def _compiled(self, program: ctypes.c_void_p, request: Request) -> Answer:
        for expression in request.expressions:
            self.library.nvrtcAddNameExpression(program, expression.encode())
        options = _strings(request.options, _option)
        code = self.library.nvrtcCompileProgram(program, len(options), options)
        log = self._text(program, "ProgramLog")
        if code != _OK:
            return Answer("", log, failed=self._error_string(code))
        lowered = {each: self._lowered(program, each) for each in request.expressions}
        return Answer(self._text(program, "PTX"), log, lowered)

    def _lowered(self, program: ctypes.c_void_p, expression: str) -> str:
        lowered = ctypes.c_char_p()
        self.library.nvrtcGetLoweredName(program, expression.encode(), ctypes.byref(lowered))
        return (lowered.value or b"").decode()

    def _text(self, program: ctypes.c_void_p, what: str) -> str:
        size = ctypes.c_size_t()
        getattr(self.library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        getattr(self.library, f"nvrtcGet{what}")(program, text)
        return text.value.decode(errors="replace")

    def _error_string(self, code: int) -> str:
        return str(self.library.nvrtcGetErrorString(code).decode())


def _strings(texts: Any, encoded: Any = str.encode) -> Any:
    several = [encoded(text) for text in texts]
    return (ctypes.c_char_p * len(several))(*several)


# ---------------------------------------------------------------------------------------------------- names on Windows

# NVRTC asks Windows for files by the system's code page (cp1252, say), and does not find one that it got as text if its
# name is not ASCII.

WINDOWS = sys.platform == "win32"
_CODE_PAGE = "mbcs" if WINDOWS else "utf-8"
_FOLDER = re.compile(r"-I|--include-path=")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<][^">\n]+[">]', re.MULTILINE)


def _in_ascii(request: Request) -> Request:
    """The request with names of files in ASCII: ~dc~ for Ü, where they are included, too."""
    headers = {_ascii(name): _ascii_includes(text) for name, text in request.headers.items()}
    return replace(request, source=_ascii_includes(request.source), name=_ascii(request.name), headers=headers)


def _ascii(name: str) -> str:
    return re.sub(r"[^\x00-\x7f]", lambda letter: f"~{ord(letter[0]):x}~", name)


def _ascii_includes(text: str) -> str:
    return text if text.isascii() else _INCLUDE.sub(lambda line: _ascii(line[0]), text)


def _with_letters(answer: Answer) -> Answer:
    """The answer with the names of files as they were."""
    ptx, log = (
        re.sub(r"~([0-9a-f]{2,6})~", lambda code: chr(int(code[1], 16)), text) for text in (answer.ptx, answer.log)
    )
    return replace(answer, ptx=ptx, log=log)


def _option(text: str, page: str = _CODE_PAGE) -> bytes:
    """An option as NVRTC reads it; a folder with letters that the code page lacks goes by its short name, PROGRA~1."""
    folder = _FOLDER.match(text)
    if not folder:
        return text.encode()
    try:
        return text.encode(page)
    except UnicodeEncodeError:
        return (folder[0] + _short(text[folder.end() :])).encode(page, "replace")


def _short(path: str) -> str:
    """The short name of a folder, where it has one."""
    if sys.platform != "win32":
        return path
    room = ctypes.create_unicode_buffer(1 << 15)
    return room.value if ctypes.windll.kernel32.GetShortPathNameW(path, room, len(room)) else path
