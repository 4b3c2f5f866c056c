"""PTX's instructions that Python kernels have no use for, and what they write in their place (PTX ISA 9.1, 9.7).

Kernels in CUDA C++ and PTX execute most of them: `tcemu.alu` has the arithmetic, `tcemu.simt` the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_ARITHMETIC = "ordinary arithmetic is Python's own"
_CACHES = "it only advises caches, and this machine has none. Leave it out"
_FLOW = "the control flow of a kernel is Python's: if, for, while and functions, and `with warp.only(condition):`"
_TEXTURES = "the machine has no textures and no surfaces. Load the elements with ld.global"
_LOCALS = "the machine has no stack: the variables of a kernel are Python's"


def _all(names: str, instead: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), instead)


#: By mnemonic: what to do instead of those that tcemu does not run at all.
_NOWHERE: Mapping[str, str] = MappingProxyType(
    _all("clmad istypep", _ARITHMETIC)
    | _all("alloca stackrestore stacksave", _LOCALS)
    | _all("suld suq sured sust tex tld4 txq", _TEXTURES)
)
#: By mnemonic: what a Python kernel does instead of those that kernels in CUDA C++ and PTX execute.
ELSEWHERE: Mapping[str, str] = MappingProxyType(
    _all(
        """
        abs add addc and bfe bfi bfind bmsk brev clz cnot copysign cos cvt div dp2a dp4a ex2 fma fns lg2 lop3 mad mad24
        madc max min mul mul24 neg not or popc prmt rcp rem rsqrt sad selp set setp shf shl shr sin slct sqrt sub subc
        szext tanh testp vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2 vavrg4 vmad vmax vmax2 vmax4 vmin vmin2
        vmin4 vset vset2 vset4 vshl vshr vsub vsub2 vsub4 xor
        """,
        _ARITHMETIC,
    )
    | _all("bra brx call", _FLOW)
    | {
        "applypriority": _CACHES,
        "discard": "it discards a cache line, whose bytes are then undefined. Leave it out",
        "mov": f"{_ARITHMETIC}, and special registers are attributes of the warp: warp.laneid for %laneid",
        "createpolicy": "it makes a cache policy, and this machine has no caches. Any integer can be a cache_policy",
        "pmevent": "it triggers a performance monitor, and this machine has none. Leave it out",
        "trap": "it ends the launch. Raise an exception of your own",
        "brkpt": "it stops a debugger. Call Python's breakpoint()",
        "exit": "its short form is warp.exit(), for the active lanes",
        "ret": "the kernel is a Python function: return from it",
    }
)


def instead(mnemonic: str) -> str:
    """Who executes another of PTX's instructions, and what a Python kernel does in its place; empty if it is none."""
    if mnemonic in ELSEWHERE:
        return f"kernels in CUDA C++ and PTX execute it, but not those in Python: {ELSEWHERE[mnemonic]}"
    return f"tcemu does not run it: {_NOWHERE[mnemonic]}" if mnemonic in _NOWHERE else ""
