"""Launches written as CUDA C++ writes them, for the command line and for comments in a file.

    x = random(4096)
    scale<<<16, 256>>>(x, 2.0f, 4096)
    gemm<64><<<dim3(4, 4), 128, 49152>>>(random(256, 256), random(256, 256), zeros(256, 256), 256)

A pointer gets an array, whose dtype follows from the kernel's parameter: random(...), zeros(...), ones(...),
arange(n), full(value, ...), load("x.npy") or a list. Whatever needs more than that is a few lines of Python.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import TcemuError, briefly, did_you_mean, listing

if TYPE_CHECKING:
    from tcemu.machine.launch import Launch
    from tcemu.ptx import Kernel, Module

Array = npt.NDArray[Any]
_MARK = re.compile(r"^\s*//+\s*tcemu:\s*(.*?)\s*$", re.MULTILINE)
_LAUNCH = re.compile(r"(?P<kernel>[^=]*?)\s*<<<(?P<where>.*)>>>\s*\((?P<given>.*)\)\s*;?", re.DOTALL)
_ASSIGNED = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*=(?!=)\s*(?P<value>.*?)\s*;?", re.DOTALL)
#: C's suffixes of numbers: 2.0f, 1024u, 1ull.
_SUFFIX = re.compile(r"(?<![\w.])((?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)(?:[fF]|[uU]?[lL]{1,2}|[uU])\b")


def _divided(left: Any, right: Any) -> Any:
    """C's quotient: that of whole numbers is whole, without what is behind the point."""
    if not isinstance(left, int) or not isinstance(right, int):
        return left / right
    return left // right if (left < 0) == (right < 0) else -(-left // right)


_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: _divided,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
_NAMED: Mapping[str, Any] = {
    "nullptr": None, "NULL": None, "None": None, "true": True, "false": False, "True": True, "False": False,
}  # fmt: skip


def marked(text: str) -> tuple[str, ...]:
    """What the `// tcemu:` lines of a file say."""
    return tuple(match[1] for match in _MARK.finditer(text) if match[1])


class Launches:
    """Runs statements: launches of a module's kernels, and names for arrays that several of them use."""

    def __init__(self, module: Module, statements: Sequence[str]) -> None:
        self._module, self._statements = module, statements
        #: The arrays that kernels got, by name, as they were before and as they are: for the summary.
        self.arrays: dict[str, tuple[Array, Array]] = {}
        #: The results of the launches so far.
        self.results: list[tuple[str, Launch]] = []

    def __call__(self, **options: Any) -> None:
        """Run all statements; `options` are those of tcemu.launch."""
        evaluator = _Evaluator(self._module)
        self.arrays, self.results = {}, []
        for statement in self._statements:
            launch = _LAUNCH.fullmatch(statement.strip())
            assigned = None if launch else _ASSIGNED.fullmatch(statement.strip())
            if launch:
                self._launch(evaluator, launch, options)
            elif assigned:
                evaluator.names[assigned["name"]] = evaluator.value(assigned["value"])
            else:
                raise TcemuError(
                    f"{briefly(statement)} is not a launch, kernel<<<grid, block>>>(arguments), or an array, "
                    "x = zeros(1024)"
                )

    def _launch(self, evaluator: _Evaluator, written: re.Match[str], options: Mapping[str, Any]) -> None:
        kernel = self._kernel(written["kernel"].strip())
        where = evaluator.several(written["where"])
        if len(where) == 4 and where[3] in (0, None):  # the default stream
            where = where[:3]
        if len(where) not in (2, 3):
            raise TcemuError(f"between <<< and >>> stand grid, block and perhaps shared memory; got {written['where']}")
        arguments = evaluator.several(written["given"])
        parameters = kernel.parameters
        if len(arguments) == len(parameters):
            arguments = [
                self._fitted(evaluator, value, each, number)
                for number, (value, each) in enumerate(zip(arguments, parameters, strict=True))
            ]
        shared = {"shared": where[2]} if len(where) == 3 else {}
        self.results.append((kernel.name, kernel(where[0], where[1], *arguments, **shared, **options)))

    def _kernel(self, name: str) -> Kernel:
        kernel = self._module[name]
        if not hasattr(kernel, "parameters"):
            raise TcemuError(f"{name} is a variable; the kernels are {listing(self._module.kernels, 'and')}")
        return kernel  # type: ignore[no-any-return]

    def _fitted(self, evaluator: _Evaluator, value: Any, parameter: Any, number: int) -> Any:
        """An argument with the dtype that its parameter points to; arrays are remembered for the summary."""
        array = value.array(parameter) if isinstance(value, _Made) else value
        if isinstance(array, np.ndarray):
            name = value.name if isinstance(value, _Made) and value.name else parameter.name or f"argument {number}"
            if all(array is not held for _, held in self.arrays.values()):
                which = f" of launch {len(self.results) + 1}" if name in self.arrays else ""
                self.arrays[f"{name}{which}"] = array.copy(), array
        return array


@dataclass
class _Made:
    """An array that gets its dtype from a kernel's parameter."""

    make: Callable[[np.dtype[Any]], Array]
    dtype: np.dtype[Any] | None = None
    name: str = ""
    _held: Array | None = None

    def array(self, parameter: Any) -> Array:
        """The array, made for this parameter if it is the first."""
        if self._held is None:
            self._held = np.ascontiguousarray(self.make(self.dtype or _dtype(parameter)))
        return self._held


def _dtype(parameter: Any) -> np.dtype[Any]:
    from tcemu.ptx.types import element, pointee

    row = element(pointee(parameter.type)) if parameter.type else None
    if row is None:
        raise TcemuError(
            f"{parameter} does not say what it points to: write the dtype, as in random(1024, dtype=float32)"
        )
    return row.dtype


class _Evaluator:
    """Evaluates the expressions in launches: numbers, tuples, names of arrays, calls that make arrays."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.names: dict[str, Any] = {}
        self._random = np.random.default_rng(0)

    def several(self, text: str) -> list[Any]:
        """The values of a list in parentheses."""
        tree = _parsed(f"f({text})")
        if not isinstance(tree, ast.Call) or tree.keywords:
            raise TcemuError(f"arguments have no names in CUDA C++; got {briefly(text)}")
        return [self._value(each) for each in tree.args]

    def value(self, text: str) -> Any:
        """The value of an expression that gets a name."""
        return self._value(_parsed(text))

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int() | float() | str()):
                return node.value
            case ast.Name(id=name) if name in self.names:
                value = self.names[name]
                if isinstance(value, _Made):
                    value.name = name
                return value
            case ast.Name(id=name) if name in _NAMED:
                return _NAMED[name]
            case ast.Name(id=name):
                raise TcemuError(f"nothing above is called {name}.{did_you_mean(name, self.names)}")
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._number(operand)
            case ast.BinOp(op=op) if type(op) in _ARITHMETIC:
                return self._calculated(node)
            case ast.Tuple(elts=items):
                return tuple(self._value(each) for each in items)
            case ast.List():
                return _Made(_listed(node))
            case ast.Call(func=ast.Name(id=name)):
                return self._called(name, node)
        problem = f"{briefly(ast.unparse(node))} is not a number, an array or a name"
        raise TcemuError(f"{problem}; what a launch cannot say here, a few lines of Python can")

    def _number(self, node: ast.expr) -> Any:
        value = self._value(node)
        if not isinstance(value, int | float):
            raise TcemuError(f"{briefly(ast.unparse(node))} is not a number")
        return value

    def _calculated(self, node: ast.BinOp) -> Any:
        left, right = self._number(node.left), self._number(node.right)
        try:
            return _ARITHMETIC[type(node.op)](left, right)
        except (ArithmeticError, TypeError, ValueError) as error:
            raise TcemuError(f"{ast.unparse(node)}: {error}") from None

    def _called(self, name: str, node: ast.Call) -> Any:
        arguments = [self._value(each) for each in node.args]
        options = {each.arg: each.value for each in node.keywords if each.arg}
        if name == "dim3":
            return tuple(arguments)
        if name == "tensor_map":
            return self._mapped(arguments, {key: self._value(value) for key, value in options.items()})
        made = _MAKERS.get(name)
        if made is None:
            raise TcemuError(f"nothing makes an array as {name} does.{did_you_mean(name, _MAKERS)}")
        kind = options.pop("dtype", None)
        if options:
            raise TcemuError(f"{name} takes a shape and dtype=; got {listing(options, 'and')}")
        return _Made(made(self._random, arguments), None if kind is None else _dtype_named(ast.unparse(kind)))

    def _mapped(self, arguments: Sequence[Any], options: dict[str, Any]) -> Any:
        from tcemu import tensor_map

        array, *box = arguments
        if not isinstance(array, _Made) or array.dtype is None:
            example = "tensor_map(random(64, 64, dtype=float16), box=(64, 8))"
            raise TcemuError(f"tensor_map takes an array with a dtype: {example}")
        return tensor_map(array.array(None), *box, **options)


def _parsed(text: str) -> ast.expr:
    """An expression of C, as far as Python's grammar has it."""
    try:
        return ast.parse(_SUFFIX.sub(r"\1", text.strip()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise TcemuError(f"{briefly(text)} cannot be read as numbers, arrays and their names") from None


# ---------------------------------------------------------------------------------------------------- arrays

#: Makes an array of a dtype.
_Make = Callable[[np.dtype[Any]], Array]


def _shape(name: str, shape: Sequence[Any]) -> tuple[int, ...]:
    if not shape or not all(isinstance(each, int) and each >= 0 for each in shape):
        raise TcemuError(f"{name} takes a shape, as in {name}(1024) or {name}(64, 64); got {listing(shape, 'and')}")
    return tuple(shape)


def _zeros(random: np.random.Generator, arguments: Sequence[Any]) -> _Make:
    shape = _shape("zeros", arguments)
    return lambda dtype: np.zeros(shape, dtype)


def _ones(random: np.random.Generator, arguments: Sequence[Any]) -> _Make:
    shape = _shape("ones", arguments)
    return lambda dtype: np.ones(shape, dtype)


def _full(random: np.random.Generator, arguments: Sequence[Any]) -> _Make:
    if not arguments:
        raise TcemuError("full takes a value and a shape: full(7, 1024)")
    value, shape = arguments[0], _shape("full", arguments[1:])
    return lambda dtype: np.full(shape, value).astype(dtype)


def _arange(random: np.random.Generator, arguments: Sequence[Any]) -> _Make:
    shape = _shape("arange", arguments[:1])
    return lambda dtype: np.arange(shape[0]).astype(dtype)


def _random(random: np.random.Generator, arguments: Sequence[Any]) -> _Make:
    """Numbers from -1 to 1; of integers, 0 to 99. They are the same in each run."""
    shape = _shape("random", arguments)

    def make(dtype: np.dtype[Any]) -> Array:
        if dtype.kind in "iub":
            return random.integers(0, 2 if dtype.kind == "b" else 100, shape).astype(dtype)
        return random.uniform(-1, 1, shape).astype(dtype)

    return make


def _listed(node: ast.List) -> _Make:
    try:
        values = np.array(ast.literal_eval(node))
    except (ValueError, TypeError):
        raise TcemuError(f"{briefly(ast.unparse(node))} is not a list of numbers") from None
    if values.dtype.kind not in "iufb":
        raise TcemuError(f"{briefly(ast.unparse(node))} is not a list of numbers")
    return values.astype


def _load(random: np.random.Generator, arguments: Sequence[Any]) -> _Make:
    if len(arguments) != 1 or not isinstance(arguments[0], str):
        raise TcemuError('load takes the name of an .npy file: load("x.npy")')
    try:
        array = np.load(arguments[0], allow_pickle=False)
    except (OSError, ValueError) as error:
        raise TcemuError(f"cannot load {arguments[0]}: {error}") from None
    return lambda dtype: array if array.dtype == dtype else array.view(dtype) if array.dtype.kind == "V" else array


#: Functions that make arrays, by name.
_MAKERS: Mapping[str, Callable[[np.random.Generator, Sequence[Any]], _Make]] = {
    "zeros": _zeros, "ones": _ones, "full": _full, "arange": _arange, "random": _random, "load": _load,
}  # fmt: skip


def _dtype_named(name: str) -> np.dtype[Any]:
    """A dtype by numpy's or C's name: float16, __half, bfloat16."""
    from tcemu.ptx.types import scalar

    row = scalar(name.strip("'\""))
    if row is not None:
        return row.dtype
    import ml_dtypes

    try:
        return np.dtype(getattr(ml_dtypes, name.strip("'\""), name.strip("'\"")))
    except TypeError:
        raise TcemuError(f"numpy and ml_dtypes have no dtype {name}") from None
