"""Wrong calls of a warp's methods: Python's TypeError, and what it should have been."""

from __future__ import annotations

import re
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from tcemu.errors import OperandError, nearest

if TYPE_CHECKING:
    from types import TracebackType

#: What others call a parameter, as regular expressions: names of CUDA C++, CUTLASS and the PTX manual.
_ALSO = {
    r"multicast(_mask)?|mask|ctamask|cluster_mask|ctas": "cta_mask",
    r"bytes|n?bytes|num_bytes|length|len|count|tx(_count|_bytes)?|copy_size|cp_size": "size",
    r"m?bar(rier)?|mbar_ptr|barrier": "mbarrier",
    r"dst|dest|to|out|smem|smem_ptr|ptr": "destination",
    r"src|from_|gmem|gmem_ptr": "source",
    r"addr|address|ptr|pointer|location|where|at": "addresses",
    r"addr|addresses|ptr|pointer|location|where|at": "address",
    r"val|vals?|value|data|x": "values",
    r"map|desc(riptor)?|tma(p)?|tensormap|tmap": "tensor_map",
    r"coords?|crd|indices|index|box": "coordinates",
    r"phase|phase_bit|phase_parity": "parity",
    r"n|groups|num|count|remaining": "pending",
    r"op|kind": "operation",
    r"type|ty": "access",
    r"sem|semantic|memory_order": "order",
    r"id|bar_id|name": "barrier",
    r"num_threads|participants|nthreads": "threads",
    r"arrivals|expected|arrive_count|threads": "count",
    r"pred|condition|cond": "predicate",
    r"src_lane|lane_id|offset|delta": "lane",
    r"cache_policy|policy|hint": "cache",
}  # fmt: skip
_UNEXPECTED = re.compile(r"(?:\w+\.)*(\w+)\(\) got an unexpected keyword argument '(\w+)'")
_OTHERS = re.compile(r"(?:\w+\.)*(\w+)\(\) (missing .* argument|takes .* positional argument|got multiple values)")


def wrong_call(kind: type, error: TypeError) -> OperandError | None:
    r"""What is wrong with a kernel's call of a method of a warp, whose class is `kind`; None for any other error.

    >>> from tcemu.machine.methods.calls import wrong_call
    >>> wrong = wrong_call(tcemu.Warp, TypeError("mbarrier_wait() got an unexpected keyword argument 'phase'"))
    >>> print(*str(wrong).split("? "), sep="?\n")
    warp.mbarrier_wait has no argument phase=; did you mean parity=?
    Its arguments are (address, parity=None, state=None)
    """
    named = _UNEXPECTED.match(str(error)) or _OTHERS.match(str(error))
    method = vars(kind).get(named[1]) if named else None
    if named is None or method is None or not callable(method) or _entered(error.__traceback__, named[1]):
        return None
    parameters = list(signature(method).parameters.values())[1:]
    accepted = f"Its arguments are {_in_words(parameters)}"
    if named.re is _OTHERS:
        said = str(error).split("() ", 1)[1].replace("'self' and ", "")
        said = re.sub(r"takes (?:from )?(.*) positional arguments? but (\d+) (?:was|were) given", _without_self, said)
        return OperandError(f"warp.{named[1]} {said}. {accepted}")
    keyword, names = named[2], [each.name for each in parameters]
    meant = [name for also, name in _ALSO.items() if re.fullmatch(also, keyword.lower()) and name in names]
    meant = (meant or nearest(keyword, names, cutoff=0.6))[:1]
    hint = f"; did you mean {meant[0]}=?" if meant else "."
    return OperandError(f"warp.{named[1]} has no argument {keyword}={hint} {accepted}")


def _without_self(said: re.Match[str]) -> str:
    """Python's numbers of arguments count the warp, which nobody writes."""
    takes = re.sub(r"\d+", lambda number: str(int(number[0]) - 1), said[1])
    count = int(said[2]) - 1
    return f"takes {takes} positional arguments but {count} {'was' if count == 1 else 'were'} given"


def _entered(traceback: TracebackType | None, name: str) -> bool:
    """Whether the error came from inside the method, and so is not about its call."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback is not None and traceback.tb_frame.f_code.co_name == name


def _in_words(parameters: list[Any]) -> str:
    """``(destination, source, size, mbarrier, cta_mask=None)``."""
    plain = (
        f"*{each.name}" if each.kind is Parameter.VAR_POSITIONAL
        else each.name if each.default is Parameter.empty
        else f"{each.name}={each.default!r}"
        for each in parameters
    )  # fmt: skip
    return f"({', '.join(plain)})"
