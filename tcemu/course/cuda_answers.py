"""Answers in CUDA C++: what %%cuda has compiled, or the text of its cell, which is compiled here.

The text may be a stranger's, and the compiler's messages quote what it includes. So this process reads no file for it,
and the grader's compiler, which may, runs in a box.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.answers import AnswerError, Unanswered
from tcemu.errors import CompilationError, LaunchError, MissingPackage, TcemuError, UnknownKey, listing
from tcemu.simt.together import unset_registers

_TARGET = "sm_90a"
#: The most operations of a warp of an answer: one that does not end has to.
OPERATIONS = 20_000
#: What each byte of a register holds that an answer has not set: of an f32, 13,323,083.
GARBAGE = 0x4B
#: What calls a __device__ function, and what messages call it; lanes of a block, each of which takes a case.
_CALLS, _BLOCK = "the check", 128
#: What results hold that a function has not set: 0xa5a5a5a5.
_UNSET = -1515870811
#: Names that C++ keeps for itself, and ours.
_RESERVED = {"register": "reg"}


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
    try:
        return _module(answer)[name]
    except CompilationError as error:
        raise AnswerError(f"NVRTC, the compiler, rejects it:\n{error}") from error
    except UnknownKey as error:
        if re.search(rf"__device__[^;{{}}]*\b{re.escape(name)}\s*\(", answer):
            raise AnswerError(
                f"{name} is a __device__ function, which no check can launch. Write __global__ void {name}(...) with "
                "the arguments of the task; it may call __device__ functions of other names."
            ) from error
        raise AnswerError(f"There is no kernel {name}: {error}") from error


def _module(answer: str, more: str = "") -> Any:
    """The module of a cell's text, and of `more` behind it. Raises CompilationError, and what `compiled` raises."""
    text = str.__str__(answer)
    head, _, body = text.partition("\n") if text.lstrip().startswith("%%cuda") else ("", "", text)
    from tcemu.cuda.magic import parser  # the compiler is loaded when an answer needs it
    from tcemu.cuda.module import compiled as compile_cuda

    try:
        asked, _ = parser().parse_known_args(shlex.split(head)[1:])
        define = dict(each.partition("=")[::2] for each in asked.define)
        return compile_cuda("\n" * bool(head) + body + more, "your cell", None, asked.arch or _TARGET, define)
    except MissingPackage as error:
        raise Unanswered(f"This answer cannot be judged here, because nothing compiles CUDA C++: {error}") from error
    except CompilationError:
        raise
    except (TcemuError, ValueError) as error:
        raise AnswerError(f"Your cell cannot be used: {error}") from error


# ---------------------------------------------------------------------------------------------- __device__ functions


def signature(name: str, arguments: Sequence[str], returns: Sequence[str]) -> str:
    """A function of whole numbers as a __device__ function, which sets references if it returns several.

    >>> from tcemu.course.cuda_answers import signature
    >>> signature("where", ["row"], ["lane", "register"])
    '__device__ void where(int row, int& lane, int& reg)'
    """
    several = len(returns) > 1
    taken = [f"int {_RESERVED.get(each, each)}" for each in arguments]
    given = [f"int& {_RESERVED.get(each, each)}" for each in returns if several]
    return f"__device__ {'void' if several else 'int'} {name}({', '.join([*taken, *given])})"


def device_values(
    answer: Any, name: str, arguments: Sequence[str], returns: Sequence[str], cases: Sequence[Sequence[int]]
) -> npt.NDArray[np.int64]:
    """What the __device__ function `name` gives in each case. Raises AnswerError, Unanswered without a compiler."""
    wanted = signature(name, arguments, returns)
    if not isinstance(answer, str):
        raise AnswerError(f"{name} must be {wanted}, in a %%cuda cell without a kernel; got {answer!r}.")
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", str.__str__(answer), flags=re.DOTALL)
    if re.search(rf"\b{re.escape(name)}\s*\([^;{{}}]*\)\s*{{\s*}}", text):
        raise Unanswered(f"The function {name} has no body yet.")
    try:
        kernel = _module(answer, _calling(name, len(arguments), len(returns)))["tcemu_cases"]
    except CompilationError as error:
        if f"{_CALLS}:" in str(error):
            raise AnswerError(f"Your cell has no function that can be called as {wanted}:\n{error}") from error
        raise AnswerError(f"NVRTC, the compiler, rejects it:\n{error}") from error
    given = np.array(cases, np.int32)
    got = np.full((len(cases), len(returns)), _UNSET, np.int32)
    try:
        with unset_registers(GARBAGE):
            ran = kernel(-(-len(cases) // _BLOCK), _BLOCK, given, got, np.int32(len(cases)), operations=OPERATIONS,
                         sanitizer="collect")  # fmt: skip
    except LaunchError as error:
        raise AnswerError(f"The function does not finish: {error}") from error
    for report in ran.reports:
        raise AnswerError(f"The sanitizer reports\n{report}")
    if ran.error is not None:
        raise AnswerError(f"The function does not finish: {ran.error}")
    for number, place in np.argwhere(got == _UNSET):
        at = listing((f"{argument} = {value}" for argument, value in zip(arguments, cases[number], strict=True)), "and")
        lost = _RESERVED.get(returns[place], returns[place])
        says = f"does not set {lost}." if len(returns) > 1 else "gives nothing back: no return is reached."
        raise AnswerError(f"With {at}, {name} {says}")
    return got.astype(np.int64)


def _calling(name: str, arguments: int, returns: int) -> str:
    """A kernel that calls the function in every case."""
    taken = [f"given[{number}]" for number in range(arguments)]
    set_there = [f"got[{number}]" for number in range(returns)]
    call = f"{name}({', '.join(taken + set_there)})" if returns > 1 else f"got[0] = {name}({', '.join(taken)})"
    return f"""
#line 1 "{_CALLS}"
extern "C" __global__ void tcemu_cases(const int* given, int* got, int cases) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= cases) return;
    given += {arguments} * i;
    got += {returns} * i;
    {call};
}}
"""
