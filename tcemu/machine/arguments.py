"""The arguments of a launch: whether the kernel takes them, and copies of them for runs that must not change them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

import numpy.typing as npt

from tcemu.errors import LaunchError, briefly, counted, did_you_mean
from tcemu.machine.global_memory import is_buffer

Function = TypeVar("Function", bound=Callable[..., Any])
#: What people call the parameters of a launch.
_PARAMETERS = {
    "blocks": "grid", "grid_dim": "grid", "griddim": "grid", "num_blocks": "grid", "threads": "block",
    "block_dim": "block", "blockdim": "block", "num_threads": "block", "num_warps": "block", "arguments": "args",
    "params": "args", "smem": "shared", "shared_memory": "shared", "shared_mem": "shared", "smem_bytes": "shared",
    "arch": "target", "sm": "target", "gpu": "target", "cluster_dim": "cluster", "clusters": "cluster",
    "cluster_size": "cluster", "policies": "policy", "sanitize": "sanitizer", "observer": "observers",
}  # fmt: skip


def buffer_name(kernel: object, number: int) -> str:
    """What reports call the array that is argument `number`: ``argument 0``.

    A kernel of a front end has an attribute `argument_names` with its own names: ``argument A``, ``variable table``.
    """
    names: Mapping[int, str] = getattr(kernel, "argument_names", {})
    return names.get(number, f"argument {number}")


def in_words(kernel: object) -> str:
    """The call that launches a kernel: ``launch(scale, grid=1, block=32, args=(x, factor))``."""
    try:
        names = list(signature(kernel).parameters)[1:]  # type: ignore[arg-type]
    except (TypeError, ValueError):
        names = ["a", "b"]
    inside = ", ".join(names) + "," * (len(names) == 1)
    named = getattr(kernel, "__name__", "kernel")
    kernel = "kernel" if named == "<lambda>" else named
    return f"launch({kernel}, grid=1, block=32{f', args=({inside})' if names else ''})"


def check_arguments(kernel: object, args: object, grid: object = 1, block: object = 32) -> None:
    """Raise LaunchError unless the kernel takes a warp and this number of arguments, which are in args=."""
    if not callable(kernel):
        return  # the machine reports what is wrong
    for what, value in (("grid", grid), ("block", block), ("args", args)):
        several = value if what != "args" and isinstance(value, list | tuple) else ()
        array = next((each for each in (value, *several) if _is_array(each)), None)
        if array is not None:
            be = "a tuple of the kernel's arguments after the warp" if what == "args" else "one to three numbers"
            got = f"{type(array).__name__} of shape {array.shape}"
            raise LaunchError(
                f"{what} must be {be}; got {got}. The kernel's arguments are a tuple, args=: {in_words(kernel)}"
            )
    if not isinstance(args, list | tuple):
        return
    try:
        signature(kernel).bind(None, *args)
    except TypeError as error:
        value = counted(len(args), "argument")
        raise LaunchError(
            f"the kernel is called with the warp and then args=, which has {value}: {error}. Its parameters are "
            f"{signature(kernel)}: {in_words(kernel)}"
        ) from None
    except ValueError:  # a callable without a known signature
        return


def _is_array(value: Any) -> bool:
    """Whether it is an array or tensor of any library, and not a number."""
    return isinstance(getattr(value, "shape", None), tuple) and len(value.shape) > 0


def called_as_documented(function: Function) -> Function:
    """A launch whose errors about its own parameters say where the kernel's arguments go."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            signature(function).bind(*args, **options)
        except TypeError as error:
            raise LaunchError(f"launch: {error}.{_meant(function, args, options)}") from None
        return function(*args, **options)

    return cast("Function", call)


def _meant(function: Function, args: Sequence[Any], options: dict[str, Any]) -> str:
    """What a call with the wrong parameters should have been, in a sentence."""
    kernel = options.get("kernel", args[0] if args else None)
    known = list(signature(function).parameters)
    wrong = next((name for name in options if name not in known), None)
    if wrong is None or (callable(kernel) and wrong in signature(kernel).parameters):
        return f" The kernel's arguments are a tuple, args=: {in_words(kernel)}"
    near = _PARAMETERS.get(wrong.lower())
    return f" Did you mean {near!r}?" if near else did_you_mean(wrong, known)


def check_kernel(kernel: object) -> None:
    """Raise LaunchError unless a kernel can be called."""
    if not callable(kernel):
        raise LaunchError(f"a kernel must be a function that takes a warp; got {briefly(kernel)}")


def check_tuple(args: object) -> None:
    """Raise LaunchError unless a kernel's arguments come as a tuple or a list."""
    if not isinstance(args, list | tuple):
        raise LaunchError(f"args must be a tuple of the kernel's arguments after the warp; got {briefly(args)}")


def fresh(args: Sequence[Any]) -> list[Any]:
    """Arguments with copies of their arrays; an array that is given twice stays one.

    Raises LaunchError if `args` is neither a tuple nor a list.
    """
    check_tuple(args)
    copies: dict[Any, npt.NDArray[Any]] = {}
    made = []
    for each in args:
        if is_buffer(each):
            same = each.__array_interface__["data"], each.strides, each.shape, each.dtype
            made.append(copies.setdefault(same, each.copy()))
        else:
            made.append(each)
    return made
