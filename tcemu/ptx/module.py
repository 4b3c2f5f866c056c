"""A module of PTX text: kernels and variables by name."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu import assembly, simt
from tcemu.arguments import explained
from tcemu.assembly import Function, Variable
from tcemu.assembly.names import demangle
from tcemu.errors import OperandError, UnknownKey, UnknownName, briefly, did_you_mean, listing
from tcemu.instructions.targets import target_named
from tcemu.ptx.kernel import Kernel
from tcemu.ptx.types import element, narrowed, vector
from tcemu.tracebacks import cell

Array = npt.NDArray[Any]
#: dtypes of variables, by PTX's kind of type; `b` does not say it.
_KINDS = {"u": "u", "s": "i", "f": "f", "b": "u"}

#: Tables that a compiler makes of a class with virtual functions.
_OF_A_CLASS = re.compile("_ZT[VTIS]")


class Module:
    """PTX text, read: ``module["name"]`` is a kernel, or the content of a variable.

    A kernel is called by its name in C++ or in PTX; of a template, with its arguments: ``module["gemm<64>"]``. A
    `__device__` or `__constant__` variable is a numpy array that keeps its content between launches: read it, write
    into it (``module["table"][:] = 1``) or assign to it (``module["table"] = values``). The kernels are made when they
    are first used, so one that tcemu cannot execute leaves the others usable. Raises
    UnknownName for a kernel or variable that is not there, with those that are.

    >>> text = '''
    ... .version 8.0
    ... .target sm_80
    ... .address_size 64
    ... .visible .entry fill(.param .u64 x)
    ... {
    ...     .reg .b32 %r<2>;  .reg .b64 %rd<4>;
    ...     ld.param.u64 %rd1, [x];
    ...     mov.u32 %r1, %tid.x;
    ...     mul.wide.u32 %rd2, %r1, 4;
    ...     add.s64 %rd3, %rd1, %rd2;
    ...     st.global.u32 [%rd3], %r1;
    ...     ret;
    ... }'''
    >>> tcemu.ptx.Module(text, "fill.ptx")
    <fill.ptx for sm_80:
        kernel fill(.param .u64)>
    >>> tcemu.ptx.Module(text).keys()
    ('fill',)
    """

    #: whether `long` has 32 bits, as in what was compiled on Windows
    narrow = False

    def __init__(self, text: str, name: str = "kernel.ptx", target: str = "", *, fmad: bool = True) -> None:
        """`fmad` is whether a product and a sum become one operation where PTX leaves it open, as ptxas does it."""
        self.text, self.name, self.fmad = text, name, fmad
        self.parsed = assembly.parse(text, name if name.endswith(".ptx") else f"the PTX of {cell(name) or name}")
        self.target = str(target_named(target or self.parsed.target))
        #: what the variables hold, which the kernels share
        self.storage = simt.Variables(self.parsed)
        self._made: dict[str, Kernel] = {}

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the kernels: with types where several have one name."""
        shared = Counter(each.short for each in self.parsed.kernels)
        return tuple(each.short if shared[each.short] == 1 else each.demangled for each in self.parsed.kernels)

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables that Python can read and write, without those that the compiler made."""
        spaces = "global", "const"
        variables = (
            each for each in self.parsed.variables.values() if each.space in spaces and not _OF_A_CLASS.match(each.name)
        )
        names = (_written(each.name) for each in variables)
        return tuple(each for each in names if not re.match(r"[$_.]", each) and self._declares(each))

    def __getitem__(self, name: str) -> Any:
        """A kernel, or the content of a variable. Raises UnknownKey, which lists those that there are."""
        function = self._function(name)
        if function is not None:
            if function.name not in self._made:
                self._made[function.name] = Kernel(self, function, self._source())
            return self._made[function.name]
        variable = self._variable(name)
        if variable is not None:
            return self._content(variable)
        raise self._unknown(name)

    def __setitem__(self, name: str, values: Any) -> None:
        """Give a variable new content."""
        variable = self._variable(name)
        if variable is None:
            raise self._unknown(name)
        content = self._content(variable)
        given = np.asarray(values)
        if content.dtype.kind in "iu" and given.dtype.kind not in "iub":
            raise OperandError(f"{name} takes whole numbers, {content.dtype}; got {briefly(values)}")
        try:
            content[...] = values
        except (ValueError, TypeError):
            raise OperandError(
                f"{name} takes values of shape {content.shape}, {content.dtype}; got {briefly(values)}"
            ) from None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (self._function(name) is not None or self._variable(name) is not None)

    def __iter__(self) -> Iterator[str]:
        return iter((*self.kernels, *self.variables))

    def __len__(self) -> int:
        return len(self.kernels) + len(self.variables)

    def keys(self) -> tuple[str, ...]:
        """The names of kernels and variables."""
        return tuple(self)

    _ipython_key_completions_ = keys

    def __getattr__(self, name: str) -> Any:
        own = (
            ""
            if name.startswith("_") or "parsed" not in vars(self) or name not in self
            else f"; it is module[{name!r}]"
        )
        raise UnknownName(f"a module of kernels has no attribute {name!r}{own}")

    def __repr__(self) -> str:
        lines = [f"<{cell(self.name) or self.name} for {self.target}:"]
        lines += [f"    kernel {self[name]}" for name in self.kernels]
        lines += [f"    variable {name}: {self[name].dtype} {self[name].shape}" for name in self.variables]
        return "\n".join(lines) + ">"

    # ------------------------------------------------------------------------------------------ by name

    def _function(self, name: str) -> Function | None:
        """The kernel of a name: as in PTX, as in C++, without namespaces or template arguments if only one fits."""
        if not isinstance(name, str):
            raise self._unknown(name)
        wanted = _packed(name)
        for form in (_in_ptx, _with_types, _short, _unqualified, _bare):
            fitting = [each for each in self.parsed.kernels if _packed(form(each)) == wanted]
            if len(fitting) == 1:
                return fitting[0]
            if fitting:
                raise UnknownKey(
                    f"{len(fitting)} kernels are called {name}: {listing(each.demangled for each in fitting)}"
                )
        return None

    def _variable(self, name: str) -> Variable | None:
        return next((each for each in self.parsed.variables.values() if name in (each.name, _written(each.name))), None)

    def _content(self, variable: Variable) -> Array:
        raw = self.storage.array(variable)
        dtype, shape = self._form(variable)
        if not shape and raw.nbytes != dtype.itemsize:
            shape = (-1,)
        content: Array = raw[: variable.size].view(dtype).reshape(shape)
        return content

    def _form(self, variable: Variable) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """The dtype and the shape of a variable: from the source that declares it, else from PTX.

        The parts of float4 and its like are the last dimension.
        """
        name = _written(variable.name)
        how = rf"__(?:constant|device|managed)__\s[^;={{}}]*?([\w:][\w: ]*?)\s+{_last(name)}\s*((?:\[[^\]]*\]\s*)*)"
        declared = re.search(how, self._source())
        c_type = re.sub(r"__\w+__", "", declared[1]).strip() if declared else ""
        c_type = narrowed(c_type) if self.narrow else c_type
        row, several = element(c_type), vector(c_type)
        parts = (several[1],) if several else ()
        if declared and row:
            sizes = re.findall(r"\[\s*(\d+)\s*\]", declared[2])
            shape = tuple(map(int, sizes)) if len(sizes) == declared[2].count("[") else (-1,)
            if variable.size == row.dtype.itemsize * int(np.prod((*shape, *parts))) or shape == (-1,):
                return row.dtype, (*shape, *parts)
            return row.dtype, (-1, *parts)
        kind, size = _KINDS[variable.type[0]], assembly.width(variable.type) // 8
        return np.dtype(f"{kind}{size}"), variable.dimensions

    def _declares(self, name: str) -> bool:
        """Whether the source declares a variable: headers have hundreds of their own."""
        source = self._source()
        return not source or bool(re.search(rf"__(?:constant|device|managed)__[^;(){{}}]*\b{_last(name)}\b", source))

    def _source(self) -> str:
        """The source that the PTX was made from, if it is known."""
        return ""

    def _unknown(self, name: object) -> UnknownKey:
        names = [*self.kernels, *self.variables]
        near = did_you_mean(name, names) if isinstance(name, str) else ""
        have = [f"the kernel {each}" for each in self.kernels] + [f"the variable {each}" for each in self.variables]
        called = cell(self.name) or self.name
        return UnknownKey(f"{called} has no kernel or variable {briefly(name)}.{near} It has {listing(have, 'and')}.")


def _in_ptx(function: Function) -> str:
    return function.name


def _with_types(function: Function) -> str:
    return function.demangled


def _short(function: Function) -> str:
    return function.short


def _unqualified(function: Function) -> str:
    """``gemm<64>`` of ``ns::gemm<64>``."""
    return re.sub(r"^(?:[\w() ]+::)+", "", function.short)


def _bare(function: Function) -> str:
    """``gemm`` of ``ns::gemm<64>``."""
    return _unqualified(function).split("<", 1)[0]


def _packed(name: str) -> str:
    """A name without the spaces and casts in which ways of writing differ: ``f<(int)64, true>`` is ``f<64,true>``."""
    plain = re.sub(r"\((?:un)?signed(?: int| long)*\)|\((?:int|bool|long|short|char)\)", "", name)
    return re.sub(r"\s+", "", plain)


def _last(name: str) -> str:
    """A variable's name without namespaces, as a regular expression."""
    return re.escape(name.rsplit("::", 1)[-1])


def _written(name: str) -> str:
    """A variable's name in C++, without namespaces that have no name."""
    return str(demangle(name)).replace("(anonymous namespace)::", "")


@explained
def load(source: str | os.PathLike[str], target: str = "", *, fmad: bool = True) -> Module:
    """The module of a PTX file, or of PTX text: ``tcemu.ptx.load("kernel.ptx")["matmul"]``.

    `target` is what it runs on, if not what the text says. `mul.f32` and `add.f32`, whose rounding the text leaves open
    (PTX ISA 9.7.3), are fused as ptxas fuses them, unless `fmad` is False; a kernel's `fused` lists them. Raises
    PtxError for text that is not PTX, and OperandError for a file that cannot be read.

    >>> text = '''
    ... .version 8.0
    ... .target sm_80
    ... .address_size 64
    ... .visible .entry fill(.param .u64 x)
    ... {
    ...     .reg .b32 %r<2>;  .reg .b64 %rd<4>;
    ...     ld.param.u64 %rd1, [x];
    ...     mov.u32 %r1, %tid.x;
    ...     mul.wide.u32 %rd2, %r1, 4;
    ...     add.s64 %rd3, %rd1, %rd2;
    ...     st.global.u32 [%rd3], %r1;
    ...     ret;
    ... }'''
    >>> x = np.zeros(4, np.int32)
    >>> result = tcemu.ptx.load(text)["fill"][1, 4](x)
    >>> x
    array([0, 1, 2, 3], dtype=int32)
    """
    if isinstance(source, str) and ("\n" in source or ".version" in source):
        return Module(source, target=target, fmad=fmad)
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise OperandError(f"cannot read the PTX file {str(path)!r}: {error.strerror or error}") from None
    return Module(text, str(path), target, fmad=fmad)
