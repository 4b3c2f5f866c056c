"""Answers in CUDA C++: a kernel that %%cuda has compiled, or the text of its cell, which is compiled here.

The text may be a stranger's, and the compiler's messages quote what it includes. So this process reads no file for it,
and the grader's compiler, which may, runs in a box.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

from tcemu.course.answers import AnswerError, Unanswered
from tcemu.errors import CompilationError, MissingPackage, TcemuError, UnknownKey

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
    from tcemu.cuda.magic import parser  # the compiler is loaded when an answer needs it
    from tcemu.cuda.module import compiled as compile_cuda

    try:
        asked, _ = parser().parse_known_args(shlex.split(head)[1:])
        define = dict(each.partition("=")[::2] for each in asked.define)
        module = compile_cuda("\n" * bool(head) + body, "your cell", None, asked.arch or _TARGET, define)
        return module[name]
    except MissingPackage as error:
        raise Unanswered(f"This answer cannot be judged here, because nothing compiles CUDA C++: {error}") from error
    except CompilationError as error:
        raise AnswerError(f"NVRTC, the compiler, rejects it:\n{error}") from error
    except UnknownKey as error:
        if re.search(rf"__device__[^;{{}}]*\b{re.escape(name)}\s*\(", body):
            raise AnswerError(
                f"{name} is a __device__ function, which no check can launch. Write __global__ void {name}(...) with "
                "the arguments of the task; it may call __device__ functions of other names."
            ) from error
        raise AnswerError(f"There is no kernel {name}: {error}") from error
    except (TcemuError, ValueError) as error:
        raise AnswerError(f"Your cell cannot be used: {error}") from error
