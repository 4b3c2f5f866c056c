"""Answers in CUDA C++: a kernel that %%cuda has compiled, or the text of its cell, which is compiled here.

The text may be a stranger's. It may include CUDA's own headers and nothing else, because the compiler's messages quote
what it includes.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

from tcemu.course.answers import AnswerError, Unanswered
from tcemu.errors import CompilationError, MissingPackage, TcemuError

#: An include of a header of CUDA or of the C++ library.
_INCLUDE = re.compile(r"\s*#\s*include\s*<(?!/)(?![^>]*\.\.)[\w./+-]+>\s*(//.*)?")
#: Other spellings of # and \\, and other ways to read a file.
_READS = re.compile(r"%:|\?\?|__has_include|__has_embed|#\s*embed|#\s*include_next|#\s*import|#\s*line")
_TARGET = "sm_90a"


def is_cuda(answer: Any) -> bool:
    """Whether an answer is CUDA C++.

    >>> from tcemu.course.cuda_answers import is_cuda
    >>> is_cuda("__global__ void f(int* x) {}"), is_cuda(len)
    (True, False)
    """
    return isinstance(answer, str) or type(answer).__module__.startswith(("tcemu.ptx.", "tcemu.cuda."))


def compiled(answer: Any, name: str) -> Any:
    """The kernel `name` of an answer. Raises AnswerError for what cannot be one, Unanswered without a compiler."""
    if not isinstance(answer, str):
        if type(answer).__name__ != "Kernel":
            raise AnswerError(f"{name} is a template. Write a kernel that is none, or check an instantiation.")
        return answer
    text = str.__str__(answer)
    head, _, body = text.partition("\n") if text.lstrip().startswith("%%cuda") else ("", "", text)
    _trusted(body)
    from tcemu.cuda.magic import parser  # the compiler is loaded when an answer needs it
    from tcemu.cuda.module import compile as compile_cuda

    try:
        asked, _ = parser().parse_known_args(shlex.split(head)[1:])
        define = dict(each.partition("=")[::2] for each in asked.define)
        module = compile_cuda("\n" * bool(head) + body, asked.arch or _TARGET, define=define, name="your cell")
        return module[name]
    except MissingPackage as error:
        raise Unanswered(f"This answer cannot be judged here, because nothing compiles CUDA C++: {error}") from error
    except CompilationError as error:
        raise AnswerError(f"NVRTC, the compiler, rejects it:\n{error}") from error
    except (TcemuError, KeyError, ValueError) as error:
        raise AnswerError(f"There is no kernel {name}: {error}") from error


def _trusted(text: str) -> None:
    """Raise AnswerError for a text that may read files of this machine."""
    joined = text.replace("\\\n", "")
    for line in joined.splitlines():
        if re.match(r"\s*#\s*include\b", line) and not _INCLUDE.fullmatch(line):
            raise AnswerError(
                f"An answer may include headers of CUDA and of C++ by their names in angle brackets; got {line.strip()}"
            )
    if found := _READS.search(joined):
        raise AnswerError(f"An answer may not contain {found[0]}, which can read other files.")
