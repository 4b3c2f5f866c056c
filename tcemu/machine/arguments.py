"""The arguments of a launch: whether the kernel takes them, and copies of them for runs that must not change them."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any

import numpy.typing as npt

from tcemu.errors import LaunchError, briefly, counted
from tcemu.machine.memory import is_buffer


def check_arguments(kernel: object, args: object) -> None:
    """Raise LaunchError unless the kernel takes a warp and this number of arguments."""
    if not callable(kernel) or not isinstance(args, list | tuple):
        return  # the machine reports what is wrong
    try:
        signature(kernel).bind(None, *args)
    except TypeError as error:
        given = counted(len(args), "argument")
        raise LaunchError(
            f"the kernel is called with the warp and then args=, which has {given}: {error}. Its parameters are "
            f"{signature(kernel)}"
        ) from None
    except ValueError:  # a callable without a known signature
        return


def fresh(args: Sequence[Any]) -> list[Any]:
    """Arguments with copies of their arrays; an array that is given twice stays one.

    Raises LaunchError if `args` is neither a tuple nor a list.
    """
    if not isinstance(args, list | tuple):
        raise LaunchError(f"args must be a tuple of the kernel's arguments after the warp; got {briefly(args)}")
    copies: dict[Any, npt.NDArray[Any]] = {}
    made = []
    for each in args:
        if is_buffer(each):
            same = each.__array_interface__["data"], each.strides, each.shape, each.dtype
            made.append(copies.setdefault(same, each.copy()))
        else:
            made.append(each)
    return made
