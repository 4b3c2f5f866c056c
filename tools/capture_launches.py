"""Captures launches of any kernels on the emulator, so that tools/replay_launches.py can repeat them on a GPU.

    from capture_launches import Captured
    captured = Captured("FOLDER")
    captured.launch("sgemm-naive", tcemu.ptx.load("sgemm.ptx")["sgemm"], (4, 4), (16, 16), a, b, c)

A launch runs as ever, sanitizer included, and FOLDER gets what a GPU needs to repeat it: ptxas's cubin of the very PTX
that the emulator executed, so that the same products and sums are fused; the arguments; SHA-256 of what the emulator
left in each array. Needs ptxas.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import re
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tcemu.machine.launch import Launch
from tcemu.machine.mapped import Mapped
from tcemu.machine.tensor_map import TensorMap
from tcemu.machine.tensor_map_words import words_of
from tcemu.ptx import Kernel
from tcemu.ptx.arguments import checked
from tcemu.simt.arguments import number_bytes

#: A pointer that stands for one of the arrays while arguments are packed: no number looks like it.
_SIGN = 0x5EED_0000_0000_0000
_SPACING = 1 << 32
#: What ptxas makes code for, and the PTX version that the driver's own release knows.
_ARCH, _NEWEST = "sm_90a", "9.0"


class Captured:
    """A folder with launches."""

    def __init__(self, folder: str | Path, arch: str = _ARCH) -> None:
        self.folder, self.arch = Path(folder), arch
        self.folder.mkdir(parents=True, exist_ok=True)

    def launch(
        self, name: str, kernel: Kernel, grid: Any, block: Any, *args: Any, shared: int = 0, cluster: Any = None,
        **options: Any,
    ) -> Launch:  # fmt: skip
        """Launch the kernel and keep what a GPU needs to repeat it. The result of the launch."""
        given = checked(kernel.name, kernel.parameters, args)
        distinct = _distinct(array for each in given for array in _arrays(each))
        arrays = [np.array(array) for array in distinct]
        parameters = _parameters(kernel, given, distinct)
        cubin = self._assembled(kernel.module.text)
        result = kernel(grid, block, *args, shared=shared, cluster=cluster, **options)
        told = {
            "kernel": kernel.function.name, "cubin": cubin, "grid": _three(grid), "block": _three(block),
            "shared": int(shared), "cluster": _three(cluster) if cluster else None, "arrays": len(arrays),
            "cooperative": "%envreg" in kernel.module.text,  # where the blocks of a grid find their barrier
            "parameters": parameters,
            "sha256": [hashlib.sha256(np.ascontiguousarray(each).tobytes()).hexdigest() for each in distinct],
        }  # fmt: skip
        kept = {f"array{n}": each.reshape(-1).view(np.uint8) for n, each in enumerate(arrays)}
        np.savez_compressed(self.folder / f"{name}.npz", told=json.dumps(told), **kept)  # type: ignore[arg-type]
        return result

    def _assembled(self, text: str) -> str:
        """The file with the cubin of a PTX text."""
        name = f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.cubin.xz"
        if not (self.folder / name).exists():
            older = re.sub(r"^\s*\.version\s+(9\.[1-9])", f".version {_NEWEST}", text, count=1, flags=re.MULTILINE)
            with tempfile.TemporaryDirectory() as folder:
                source, made = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
                source.write_text(re.sub(r", debug\b", "", older), encoding="utf-8")
                subprocess.run(["ptxas", f"-arch={self.arch}", str(source), "-o", str(made)], check=True)  # noqa: S603, S607
                (self.folder / name).write_bytes(lzma.compress(made.read_bytes()))
        return name


def _three(sizes: Any) -> list[int]:
    several = [int(sizes)] if np.ndim(sizes) == 0 else [int(each) for each in sizes]
    return [*several, 1, 1][:3]


def _arrays(given: Any) -> list[Any]:
    """The arrays that an argument points to."""
    if isinstance(given, np.ndarray):
        return [given]
    return list(given.buffers) if hasattr(given, "buffers") else []


def _distinct(arrays: Iterable[Any]) -> list[Any]:
    """The arrays, each memory once: a kernel may get the same by a pointer and by a tensor map."""
    found: dict[Any, Any] = {}
    for each in arrays:
        found.setdefault(_memory(each), each)
    return list(found.values())


def _memory(array: Any) -> tuple[int, int]:
    return array.__array_interface__["data"][0], array.nbytes


def _parameters(kernel: Kernel, given: tuple[Any, ...], distinct: list[Any]) -> list[dict[str, Any]]:
    """Each parameter's bytes, and where arrays' addresses and tensor maps belong in them."""
    found: list[dict[str, Any]] = []
    numbers = {_memory(each): number for number, each in enumerate(distinct)}
    for argument, parameter in zip(given, kernel.function.parameters, strict=True):
        arrays = _arrays(argument)
        places = [numbers[_memory(each)] for each in arrays]
        signs = [_SIGN + number * _SPACING for number in places]
        maps: list[Any] = []
        by_address = isinstance(argument, Mapped) and parameter.size == 8
        if isinstance(argument, np.ndarray):
            raw = signs[0].to_bytes(8, "little")
        elif arrays or hasattr(argument, "pack"):
            raw = argument.pack(iter(signs))
            told = {
                match.start(): [match.start(), number, _told(each.tensor_map)]
                for each, number, sign in zip(_maps(argument), places, signs, strict=True)
                if isinstance(each, Mapped)
                for match in re.finditer(re.escape(words_of(_at(each.tensor_map, sign)).tobytes()), raw)
            }
            maps = list(told.values())
        else:
            raw = number_bytes(kernel.function, parameter, str(len(found)), argument)
        inside = [range(at, at + 128) for at, *_ in maps]
        pointers = [
            [at, number]
            for number, sign in dict(zip(places, signs, strict=True)).items()
            for at in (found.start() for found in re.finditer(re.escape(sign.to_bytes(8, "little")), raw))
            if not any(at in each for each in inside)
        ]
        found.append({"bytes": raw.hex(), "pointers": pointers, "maps": maps, "by_address": by_address})
    return found


def _maps(argument: Any) -> list[Any]:
    """The tensor maps of an argument beside its arrays, in their order."""
    if isinstance(argument, np.ndarray | Mapped):
        return [argument]
    if isinstance(argument, tuple | list):
        return [each for part in argument for each in _maps(part)]
    return _maps(list(argument.fields.values())) if hasattr(argument, "fields") else []


def _at(tensor_map: Any, address: int) -> TensorMap:
    moved: TensorMap = replace(tensor_map, address=address)
    return moved


def _told(tensor_map: Any) -> dict[str, Any]:
    names = ("element", "sizes", "strides", "box", "element_strides", "swizzle", "fill")
    return {name: getattr(tensor_map, name) for name in names}
