"""Tensor copies to be asked of a GPU and of the emulator: test_tma_live.py compares, test_tensor_copies.py replays.

    python tests/tensor_copies.py FOLDER

asks the GPU of this machine every copy of `recorded()` and `stopping()` and writes what it answered to FOLDER.
"""

import ctypes
import datetime
import hashlib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from tcemu import live
from tcemu.errors import AddressError, GpuError, OperandError
from tcemu.machine.tensor_map import ELEMENTS, TensorMap

SOURCE = (Path(__file__).parent / "tma.cu").read_text(encoding="utf-8")

#: CUtensorMapDataType and CUtensorMapSwizzle of cuda.h.
TYPES = dict(zip(("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16"), range(10), strict=True))
TYPES["tf32"] = 11
MODES = {0: 0, 32: 1, 64: 2, 128: 3}
#: Bytes of global memory behind a tensor, and of shared memory behind a box.
BEHIND = 64
#: What an H200 answers to coordinates that it does not take, and to a box that starts off the 128 in shared memory.
REFUSED, MISALIGNED = "CUDA_ERROR_ILLEGAL_INSTRUCTION", "CUDA_ERROR_MISALIGNED_ADDRESS"


class Copied(NamedTuple):
    """A box at coordinates `at` and at `offset` in shared memory (from a multiple of 1024 on), loaded or stored."""

    map: TensorMap
    at: tuple[int, ...]
    offset: int = 0
    storing: bool = False

    def row(self) -> list[Any]:
        """The copy as a golden file has it."""
        made = self.map
        return [
            "store" if self.storing else "load",
            made.address, made.element, made.sizes, made.strides, made.box, made.swizzle, made.fill,
            made.element_strides, self.at, self.offset,
        ]  # fmt: skip

    @classmethod
    def of(cls, row: list[Any]) -> "Copied":
        """The copy of a row of a golden file."""
        what, *fields, at, offset = row
        return cls(TensorMap(*fields), tuple(at), offset, what == "store")

    def memories(self) -> tuple[np.ndarray, np.ndarray]:
        """Global memory, and shared memory from `offset` on, before the copy: the same bytes everywhere."""
        made = self.map
        far = sum((length - 1) * stride for length, stride in zip(made.sizes[1:], made.strides, strict=True))
        return (
            _bytes("global", made.address + far + made.sizes[0] * made.element_bytes + BEHIND),
            _bytes("shared", made.shared_bytes + BEHIND),
        )

    def emulated(self) -> tuple[np.ndarray, np.ndarray]:
        """Both memories afterwards, as the emulator has it."""
        memory, shared = self.memories()
        # the box starts at the same place of the swizzle's pattern
        whole = np.concatenate([np.zeros(self.offset, np.uint8), shared])
        (self.map.store if self.storing else self.map.load)(memory, whole, self.offset, self.at)
        return memory, whole[self.offset :]

    def asked(self) -> tuple[np.ndarray, np.ndarray, bool]:
        """Both memories as the GPU leaves them, and whether the mbarrier had all bytes of the box.

        Raises GpuError where the GPU breaks off, ValueError where the driver does not encode the map.
        """
        made = self.map
        memory, shared = self.memories()
        report = np.zeros(1, np.uint32)
        live.cuda(
            SOURCE,
            "tensor_copy",
            1,
            32,
            encoded(made),
            memory,
            np.zeros(512, np.uint8),
            np.array([*self.at, *[0] * (5 - made.rank)], np.int32),
            shared,
            report,
            np.uint64(made.address),
            np.uint32(made.rank),
            np.uint32(self.offset),
            np.uint32(len(shared)),
            np.uint32(made.bytes),
            np.uint32(self.storing),
            shared=2048 + self.offset + len(shared),
            seconds=20,
        )
        return memory, shared, bool(report[0])

    def told(self, memories: tuple[np.ndarray, np.ndarray]) -> str:
        """Both memories after the copy in short: a hash, how many bytes changed, and the first of them."""
        return told_of(self.memories(), memories)

    def answer(self) -> str:
        """The emulator's answer, as `told` writes it; for a copy that stops a GPU, the driver's name of the error."""
        try:
            return self.told(self.emulated())
        except OperandError as error:
            if isinstance(error, AddressError) and error.kind == "bounds":
                raise
            return MISALIGNED if "start in shared memory" in str(error) else REFUSED

    def gpu_answer(self) -> str:
        """The same of the GPU. Raises ValueError where not all bytes of a load were counted."""
        return gpu_answer(self, loads=not self.storing)


class Asked(Protocol):
    """A copy that a GPU can make."""

    map: TensorMap

    def asked(self) -> tuple[np.ndarray, np.ndarray, bool]:
        """Both memories as the GPU leaves them, and whether the mbarrier had all bytes."""

    def told(self, memories: tuple[np.ndarray, np.ndarray]) -> str:
        """Both memories in short."""


def gpu_answer(copy: Asked, *, loads: bool) -> str:
    """What the GPU answers, as `told`; for what stops it, the driver's name of the error.

    Raises ValueError where not all bytes of a load were counted.
    """
    try:
        *memories, counted = copy.asked()
    except GpuError as error:
        found = re.search(r"CUDA_ERROR_\w+", str(error))
        if not found:
            raise
        return found[0]
    if loads and not counted:
        raise ValueError(f"{copy}: the mbarrier's phase is not complete after {copy.map.bytes} bytes")
    return copy.told(tuple(memories))


def told_of(held: Sequence[np.ndarray], memories: Sequence[np.ndarray]) -> str:
    """Memories after a copy in short, which were `held`: a hash, how many bytes changed, and the first of them."""
    digest = hashlib.sha256(b"".join(each.tobytes() for each in memories)).hexdigest()[:16]
    before, after = (np.concatenate(each) for each in (held, memories))
    changed = np.flatnonzero(before != after)
    return " ".join([digest, str(changed.size), after[changed[:4]].tobytes().hex()]).strip()


def _bytes(name: str, count: int) -> np.ndarray:
    return np.frombuffer(hashlib.shake_256(name.encode()).digest(count), np.uint8).copy()


@cache
def _driver() -> ctypes.CDLL:
    """The driver with a new context: without one it encodes nothing."""
    driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    for status in (
        driver.cuInit(0),
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
        driver.cuCtxSetCurrent(context),
    ):
        if status:
            raise RuntimeError(f"the driver answers {status}")
    return driver


def encoded(made: TensorMap) -> np.ndarray:
    """The 128 bytes that the driver makes of a map, with another address. Raises ValueError where it makes none."""
    room = ctypes.create_string_buffer(128 + 64)
    place = -(-ctypes.addressof(room) // 64) * 64
    status = _driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(place),
        ctypes.c_int(TYPES[made.element]),
        ctypes.c_uint32(made.rank),
        ctypes.c_void_p(1 << 20),
        (ctypes.c_uint64 * made.rank)(*made.sizes),
        (ctypes.c_uint64 * max(made.rank - 1, 1))(*made.strides),
        (ctypes.c_uint32 * made.rank)(*made.box),
        (ctypes.c_uint32 * made.rank)(*made.element_strides),
        ctypes.c_int(0),
        ctypes.c_int(MODES[made.swizzle]),
        ctypes.c_int(0),
        ctypes.c_int(made.fill == "nan"),
    )
    if status:
        raise ValueError(f"cuTensorMapEncodeTiled answers {status}: {made!r}")
    return np.frombuffer(ctypes.string_at(place, 128), np.uint64)


# ------------------------------------------------------------------------------------------------ which copies


def tile(element: str, width: int, rows: int, swizzle: int = 0, **more: Any) -> TensorMap:
    """Boxes of `width` elements by `rows` of a matrix of 3 boxes by 3, less a unit and a row."""
    size = ELEMENTS[element].bytes
    across = 3 * width - 16 // size
    pitch = -(-across * size // 16) * 16 + 16
    return TensorMap(256, element, (across, 3 * rows - 1), (pitch,), (width, rows), swizzle, **more)


def edges(made: TensorMap, storing: bool = False) -> Iterator[Copied]:
    """A tile's boxes inside, across each edge and beyond."""
    width, rows = made.box
    unit = 16 // made.element_bytes
    inside = [(0, 0), (width, rows), (2 * width, 2 * rows), (3 * width, 0)]
    for at in inside if storing else [*inside, (-unit, -3), (-2 * width, 0), (2 * width, -1)]:
        yield Copied(made, at, 0, storing)


#: Ranks, element strides, dimensions in another order, overlapping lines, lines that are one.
SHAPES = (
    TensorMap(64, "f32", (50,), (), (32,)),
    TensorMap(16, "f16", (40, 5, 7), (96, 480), (32, 3, 4), 64),
    TensorMap(16, "f16", (40, 9, 7), (96, 480 * 2), (32, 6, 5), 64, "zeros", (2, 2, 3)),
    TensorMap(32, "s32", (12, 9, 6), (48, 432), (8, 7, 5), 0, "zeros", (1, 3, 2)),
    TensorMap(0, "u8", (48, 3, 4, 5), (48, 144, 592), (16, 2, 3, 2)),
    TensorMap(0, "f16", (20, 3, 4, 5), (48, 144, 592), (16, 2, 3, 2), 32, "nan"),
    TensorMap(0, "u8", (48, 3, 4, 2, 3), (64, 192, 768, 1536), (32, 2, 3, 2, 2), 32),
    TensorMap(48, "f64", (9, 3, 4, 2, 3), (80, 240, 960, 1920), (4, 3, 3, 2, 2), 0, "nan", (1, 2, 1, 1, 2)),
    TensorMap(0, "bf16", (16, 6, 4), (128, 32), (16, 4, 2), 32),
    TensorMap(0, "f16", (16, 8, 8), (32, 128), (16, 4, 4)),
    TensorMap(0, "f16", (16, 8, 8), (16, 16), (16, 4, 4)),
    TensorMap(0, "f16", (16, 8, 8), (0, 512), (16, 4, 4)),
)


def shapes(storing: bool = False) -> Iterator[Copied]:
    """SHAPES inside and across the edges; stores only where no two elements are at one place."""
    for made in SHAPES:
        unit, rest = 16 // made.element_bytes, made.rank - 1
        starts = [(0,) * made.rank, (unit, *(1,) * rest), (unit * ((made.sizes[0] - 1) // unit), *(2,) * rest)]
        if not storing:
            starts.append((-unit, *(-1,) * rest))
        elif 0 in made.strides or made.strides == (16, 16):
            continue
        for at in starts:
            yield Copied(made, at, 0, storing)


def narrow(storing: bool = False) -> Iterator[Copied]:
    """Boxes narrower than the swizzle, from several places of its pattern on."""
    for swizzle, inner in ((32, 16), (64, 16), (64, 32), (64, 48), (128, 16), (128, 32), (128, 64), (128, 112)):
        made = tile("f16", inner // 2, 12, swizzle)
        for offset in (0, 128, 384):
            yield Copied(made, made.box, offset, storing)


def partial(storing: bool = False) -> Iterator[Copied]:
    """Innermost dimensions that end anywhere in a unit of 16 bytes."""
    for element, rank in product(("u8", "f16", "f32", "f64"), (1, 2, 3)):
        size = ELEMENTS[element].bytes
        for length in (1, 2, 3, 5, 9, 11, 15, 17, 31):
            pitch = -(-length * size // 16) * 16 + 16 * (length % 3)
            fill = "nan" if ELEMENTS[element].float and length % 2 else "zeros"
            sizes, strides, box = (length, 3, 2), (pitch, 3 * pitch), (64 // size, 2, 2)
            made = TensorMap(16, element, sizes[:rank], strides[: rank - 1], box[:rank], 0, fill)
            for first in sorted({0, (length * size - 1) // 16 * 16 // size}):
                yield Copied(made, (first, *(1,) * (rank - 1)), 0, storing)


def recorded() -> Iterator[Copied]:
    """Every copy that the golden file has, but for those that stop a GPU."""
    for element, swizzle, storing in product(ELEMENTS, MODES, (False, True)):
        yield from edges(tile(element, (swizzle or 96) // ELEMENTS[element].bytes, 12, swizzle), storing)
    for element, kind in ELEMENTS.items():
        if kind.float:
            yield from edges(tile(element, 64 // kind.bytes, 4, 64, fill="nan"))
    for swizzle in MODES:
        made = tile("f16", (swizzle or 64) // 2, 24, swizzle)
        yield from (Copied(made, made.box, offset) for offset in range(0, 1024, 128))
    for storing in (False, True):
        yield from narrow(storing)
        yield from shapes(storing)
        yield from partial(storing)
        yield Copied(TensorMap(0, "tf32", (64, 64), (256,), (64, 64)), (0, 0), 0, storing)


def stopping() -> Iterator[Copied]:
    """Copies that stop an H200: boxes that start inside a unit of 16 bytes, at negative coordinates, off the 128."""
    plain, swizzled = tile("f16", 16, 4), tile("f16", 16, 4, 64)
    yield Copied(plain, (4, 0))
    yield Copied(plain, (-1, 0))
    yield Copied(plain, (1001, 100))
    yield Copied(swizzled, (12, 0))
    yield Copied(plain, (1, 0), 0, True)
    yield Copied(TensorMap(0, "u8", (160,), (), (32,)), (8,))
    yield Copied(TensorMap(0, "f64", (20, 5, 3), (160, 800), (4, 2, 2)), (1, 0, 0))
    yield Copied(plain, (-8, 0), 0, True)
    yield Copied(plain, (8, -1), 0, True)
    yield Copied(TensorMap(0, "f32", (40,), (), (8,)), (-4,), 0, True)
    yield Copied(plain, (0, 0), 64)
    yield Copied(swizzled, (0, 0), 16, True)


# ------------------------------------------------------------------------------------------------ recording


def record(folder: Path) -> None:
    """Run every copy on this machine's GPU and write the golden file."""
    device = live.device()
    words = str(device).split(", ", 1)
    provenance = {
        "gpu": device.name,
        "target": device.target,
        "driver": words[1].removeprefix("driver "),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": "python tests/tensor_copies.py FOLDER",
        "row": "load or store, address, element, sizes, strides, box, swizzle, fill, element strides, coordinates, "
        "offset in shared memory, answer: hash of both memories, bytes that changed, the first of them",
    }
    rows = [[*copy.row(), copy.gpu_answer()] for copy in (*dict.fromkeys(recorded()), *stopping())]
    text = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    file = folder / f"{device.target}-tensor-copies.json"
    file.write_text(f'{{"provenance": {json.dumps(provenance, indent=1)},\n"copies": [\n{text}\n]}}\n', "utf-8")
    print(f"{len(rows)} copies in {file}")


if __name__ == "__main__":
    record(Path(sys.argv[1]))
