"""Misspelt names: what a source, or CUDA, has that is nearly the same."""

from __future__ import annotations

import re
from functools import cache

from tcemu.cuda.host_code import SILENT
from tcemu.cuda.toolkit import toolkit
from tcemu.errors import nearest

#: CUDA's words before declarations.
_ANNOTATIONS = (
    "__global__",
    "__device__",
    "__host__",
    "__shared__",
    "__constant__",
    "__managed__",
    "__launch_bounds__",
)
#: Words of C++: none of them is meant by a name.
_OF_CPP = re.compile(
    r"auto|bool|char|class|const|constexpr|double|extern|float|for|inline|int|long|return|short|signed|sizeof|static|"
    r"struct|template|this|typename|union|unsigned|void|volatile|while"
)
_VARIABLES = ("threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize")
#: Headers that declare CUDA's functions, and how each begins a declaration.
_HEADERS = "crt/*functions*.h*", "crt/sm_*.h*", "*functions*.h*", "*intrinsics.h*", "cuda_fp16.h", "cuda_bf16.h"
#: How much of two words must be the same: any two, and words of underscores, which look alike.
_NEAR, _NEARER = 0.8, 0.87
_FUNCTION = re.compile(r"\b([A-Za-z_]\w{2,})\s*\(")
_WORD = re.compile(r"[A-Za-z_]\w{2,}")


@cache
def _functions() -> frozenset[str]:
    """What CUDA's headers have parentheses behind."""
    found = set[str]()
    for folder in toolkit().include:
        for file in {each for pattern in _HEADERS for each in folder.glob(pattern)}:
            found.update(_FUNCTION.findall(file.read_text(encoding="utf-8", errors="replace")))
    return frozenset(found)


def meant(word: str, source: str) -> str:
    """``threadidx: did you mean threadIdx?`` for a name that is undefined; empty if nothing is near."""
    own = [each for each in dict.fromkeys(_WORD.findall(SILENT.sub(" ", source))) if each != word]
    several = [own, [*_VARIABLES, *sorted(_functions() - {word})]]
    several = [[each for each in names if not _OF_CPP.fullmatch(each)] for names in several]
    plain = word.lower().strip("_")
    same = [each for names in several for each in names if each.lower().strip("_") == plain]
    near = same or [each for names in several for each in nearest(word, names, cutoff=_NEAR)]
    return f"{word}: did you mean {near[0]}?" if near else ""


def annotation(source: str) -> str:
    """A sentence about a word that looks like `__global__` or another of its kind; empty if all are right.

    >>> from tcemu.cuda.spelling import annotation
    >>> annotation("_global_ void f() {}")
    "_global_ is none of CUDA's words. Did you mean __global__?"
    """
    plain = SILENT.sub(" ", source)
    for word in dict.fromkeys(re.findall(r"(?<!\w)_\w+", plain)):
        near = nearest(word, _ANNOTATIONS, cutoff=_NEARER)
        if near and word not in _ANNOTATIONS and not re.search(rf"#\s*define\s+{word}\b", plain):
            return f"{word} is none of CUDA's words. Did you mean {near[0]}?"
    return ""
