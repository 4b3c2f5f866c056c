"""Copies of im2col mode to be asked of a GPU and of the emulator: test_im2col.py replays, test_im2col_live.py compares.

    python tests/machine/im2col_copies.py FOLDER

asks the GPU of this machine every copy of the golden file again and writes what it answered to FOLDER.
"""

import datetime
import json
import random
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from places import GOLDEN
from tensor_copies import BEHIND, MISALIGNED, MODES, REFUSED, gpu_answer, told_of

import tcemu
from tcemu import live
from tcemu.errors import OperandError, TcemuError
from tcemu.live.runner.cuda import Mapped
from tcemu.machine.im2col import CORNER_BITS, Im2colMap
from tcemu.machine.reductions import box_reduction
from tcemu.machine.tensor_map import ELEMENTS, TensorMap

NAME = "sm_90a-im2col-copies.json"
SOURCE = (Path(__file__).parent / "im2col.cu").read_text(encoding="utf-8")
_LOADED = "cp.async.bulk.tensor.{}d.shared::cluster.global.{}.mbarrier::complete_tx::bytes"
#: What a copy does: its number in im2col.cu, and its opcode.
WAYS = {
    "load": (0, _LOADED.replace("{}.mb", "im2col.mb")),
    "tile load": (2, _LOADED.replace("{}.mb", "tile.mb")),
    "tile store": (3, "cp.async.bulk.tensor.{}d.global.shared::cta.tile.bulk_group"),
    "prefetch": (4, "cp.async.bulk.prefetch.tensor.{}d.L2.global.im2col"),
    "store": (5, "cp.async.bulk.tensor.{}d.global.shared::cta.im2col_no_offs.bulk_group"),
}
REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
_REDUCED = "cp.reduce.async.bulk.tensor.{{}}d.global.shared::cta.{}.{}.bulk_group"
WAYS |= {name: (6 + number, _REDUCED.format(name, "im2col_no_offs")) for number, name in enumerate(REDUCTIONS)}
WAYS |= {f"tile {name}": (14 + number, _REDUCED.format(name, "tile")) for number, name in enumerate(REDUCTIONS)}
#: Where the emulator has the mbarrier and, from `offset` on, the pixels.
BAR, BOX = 0, 1024


class Taken(NamedTuple):
    """A copy by a map, from coordinates `at` on; `offset` is where it starts in shared memory, past a 1024."""

    map: TensorMap
    at: tuple[int, ...]
    offsets: tuple[int, ...] = ()
    offset: int = 0
    way: str = "load"

    def row(self) -> list[Any]:
        """The copy as a golden file has it."""
        made = self.map
        corners = [made.lower, made.upper] if isinstance(made, Im2colMap) else []
        return [
            self.way, made.address, made.element, made.sizes, made.strides, made.box, made.swizzle, made.fill,
            made.element_strides, *corners, self.at, self.offsets, self.offset,
        ]  # fmt: skip

    @classmethod
    def of(cls, row: list[Any]) -> "Taken":
        """The copy of a row of a golden file."""
        way, *fields, at, offsets, offset = row
        kind = Im2colMap if len(fields) > 8 else TensorMap
        return cls(kind(*fields), tuple(at), tuple(offsets), offset, way)

    def memories(self) -> tuple[np.ndarray, np.ndarray]:
        """Global memory, and shared memory from `offset` on, before the copy: words with their numbers."""
        made = self.map
        far = sum((length - 1) * stride for length, stride in zip(made.sizes[1:], made.strides, strict=True))
        size = made.address + far + made.sizes[0] * made.element_bytes + BEHIND
        return _numbered(1 << 24, size), _numbered(2 << 24, made.shared_bytes + BEHIND)

    def emulated(self) -> tuple[np.ndarray, np.ndarray]:
        """Both memories afterwards, as the emulator has it; the mbarrier had all bytes."""
        memory, shared = self.memories()
        place, opcode = BOX + self.offset, WAYS[self.way][1].format(self.map.rank)

        def kernel(warp: Any, memory: Any) -> None:
            made = replace(self.map, address=int(memory) + self.map.address)
            held = warp.core.block.shared.bytes[place : place + len(shared)]
            held[...] = shared
            offsets = (self.offsets or (0,) * (made.rank - 2),) if tcemu.parse(opcode).facts.windows else ()
            with warp.only(warp.laneid == 0):
                warp.mbarrier_init(BAR, 1)
                if "shared::cluster" in opcode:
                    warp.mbarrier_arrive_expect_tx(BAR, made.bytes)
                    warp.run(opcode, place, made, self.at, BAR, *offsets)
                    warp.mbarrier_wait(BAR, 0)
                else:
                    warp.run(opcode, made, self.at, *(() if self.way == "prefetch" else (place,)), *offsets)
                    warp.cp_async_bulk_commit_group()
                    warp.cp_async_bulk_wait_group(0)
            shared[...] = held

        tcemu.launch(kernel, 1, 32, (memory,), shared=place + len(shared), sanitizer="off")
        return memory, shared

    def asked(self, blocks: int = 1) -> tuple[np.ndarray, np.ndarray, bool]:
        """Both memories as the GPU leaves them, and whether the mbarrier had all bytes.

        With two blocks, a multicast to both; shared memory then has a row for each. Raises GpuError where the GPU
        breaks off.
        """
        made = self.map
        memory, shared = self.memories()
        shared = np.tile(shared, (blocks, 1))
        report = np.zeros(blocks, np.uint32)
        numbers = [*self.at, *[0] * (5 - made.rank), *self.offsets, *[0] * (3 - len(self.offsets))]
        live.cuda(
            SOURCE,
            "im2col_copy" if blocks == 1 else "im2col_multicast",
            blocks,
            32,
            Mapped(memory, made),
            np.array(numbers, np.int32),
            shared,
            report,
            np.uint32(made.rank),
            np.uint32(self.offset),
            np.uint32(shared.shape[1]),
            np.uint32(made.bytes),
            np.uint32(WAYS[self.way][0] if blocks == 1 else 1),
            shared=2048 + self.offset + shared.shape[1],
            seconds=20,
        )
        return memory, shared[0] if blocks == 1 else shared, bool(report.all())

    def told(self, memories: tuple[np.ndarray, np.ndarray]) -> str:
        """Both memories after the copy in short."""
        return told_of(self.memories(), memories)

    def answer(self) -> str:
        """The emulator's answer, as `told` writes it; for a copy that stops a GPU, the driver's name of the error."""
        try:
            return self.told(self.emulated())
        except TcemuError as error:
            if "memory has" in str(error):
                raise
            return MISALIGNED if "start in shared memory" in str(error) else REFUSED

    def gpu_answer(self) -> str:
        """The same of the GPU. Raises ValueError where not all bytes of a load were counted."""
        return gpu_answer(self, loads="load" in self.way)


def _numbered(first: int, size: int) -> np.ndarray:
    return np.arange(first, first + -(-size // 4), dtype="<u4").view(np.uint8)[:size].copy()


# ------------------------------------------------------------------------------------------------ which copies


def drawn(draw: random.Random, rank: int, element: str, swizzle: int, **more: Any) -> Im2colMap:
    """A map of small images, padded or not, with a bounding box of any size."""
    size, rest = ELEMENTS[element].bytes, rank - 1
    sizes = (draw.randint(1, 80 // size), *(draw.randint(2, 6) for _ in range(rank - 2)), draw.randint(1, 3))
    strides, step = [], -(-sizes[0] * size // 16) * 16
    for length in sizes[1:]:
        step += 16 * draw.randint(0, 1)
        strides.append(step)
        step *= length
    lower = tuple(draw.randint(-3, 2) for _ in sizes[1:-1])
    upper = tuple(draw.randint(low + 1 - length, 2) for low, length in zip(lower, sizes[1:-1], strict=True))
    box = 16 * draw.randint(1, (swizzle or 64) // 16) // size, draw.randint(1, 40)
    steps = (draw.randint(1, 8), *(draw.randint(1, 3) for _ in range(rest)))
    address = 16 * draw.randint(0, 3)
    return Im2colMap(
        address, element, sizes, tuple(strides), box, swizzle, element_strides=steps, lower=lower, upper=upper, **more
    )


def start(draw: random.Random, made: Im2colMap) -> tuple[int, ...]:
    """Coordinates in the bounding box, of channels and images in the tensor or just outside it."""
    unit = 16 // made.element_bytes
    ends = zip(made.lower, made.upper, made.sizes[1:-1], strict=True)
    space = [draw.randint(low, length + up - 1) for low, up, length in ends]
    first = unit * draw.randint(-1, made.sizes[0] // unit) if draw.random() < 0.5 else 0
    return first, *space, draw.randint(-1, made.sizes[-1])


def at_random(each: int) -> Iterator[Taken]:
    """Maps and coordinates of every rank, element type and swizzle."""
    draw = random.Random(1)
    for rank, element, swizzle, _ in product(CORNER_BITS, ELEMENTS, MODES, range(each)):
        fill = draw.choice(["zeros", "nan"] if ELEMENTS[element].float else ["zeros"])
        made = drawn(draw, rank, element, swizzle, fill=fill)
        offsets = tuple(draw.randint(0, 4) for _ in range(rank - 2))
        yield Taken(made, start(draw, made), offsets, 128 * draw.randint(0, 7))


def image(rank: int, **more: Any) -> Im2colMap:
    """Images of 6 by 5 by 4 pixels, as many of these as there are dimensions, padded by 1."""
    sizes = 8, *(6, 5, 4)[: rank - 2], 2
    strides = [16]
    for length in sizes[1:-1]:
        strides.append(strides[-1] * length)
    given = {"lower": (-1,) * (rank - 2), "upper": (1,) * (rank - 2)} | more
    return Im2colMap(0, "u16", sizes, tuple(strides), (8, 30), **given)


def limits() -> Iterator[Taken]:
    """The largest corners, offsets and copies."""
    for rank, bits in CORNER_BITS.items():
        rest = rank - 3
        for axis in range(rank - 2):
            most, there = 1 << bits - 1, [0] * (rank - 2)
            there[axis] = -most
            far = image(rank, lower=tuple(there), upper=tuple(there))
            for more in (most, most + 2, 2 * most - 1):
                offsets = [0] * (rank - 2)
                offsets[axis] = more
                yield Taken(far, (0, *there, 0), tuple(offsets))
        short = image(rank, lower=(5, *(0,) * rest), upper=(0,) * (rank - 2))
        yield Taken(short, (0, 5, *(0,) * rest, 0), (0,) * (rank - 2))
    yield Taken(Im2colMap(0, "u8", (256, 40, 40), (256, 10240), (64, 1024), 64, lower=(-1,), upper=(1,)), (64, -1, 0))
    yield Taken(Im2colMap(0, "f16", (256, 9, 9), (512, 4608), (256, 80), 0, "nan", (8, 2, 3)), (0, 1, 0), (1,))


def stopping() -> Iterator[Taken]:
    """Copies that stop a GPU: they start outside the bounding box, by a map of the other mode, or as in tile mode."""
    for rank in CORNER_BITS:
        made = image(rank)
        for axis, size in enumerate(made.sizes[1:-1], 1):
            for place in (-2, size + 1):
                at = [0] * rank
                at[axis] = place
                yield Taken(made, tuple(at))
    plain, nothing = image(4), (0,) * 4
    tiled = TensorMap(0, "u16", plain.sizes, plain.strides, (8, 2, 2, 2))
    yield Taken(plain, (4, 0, 0, 0))
    yield Taken(plain, (0, -2, 0, 0), way="prefetch")
    yield Taken(plain, nothing, offset=64)
    yield Taken(tiled, nothing)
    yield Taken(plain, nothing, way="tile load")
    yield Taken(plain, nothing, way="tile store")


# ------------------------------------------------------------------------------------------------ stores


def inside(made: Im2colMap) -> Im2colMap:
    """The same map with a bounding box inside the tensor."""
    lengths = made.sizes[1:-1]
    upper = [max(min(up, 0), 1 - length) for up, length in zip(made.upper, lengths, strict=True)]
    lower = [min(max(low, 0), length + up - 1) for low, up, length in zip(made.lower, upper, lengths, strict=True)]
    return replace(made, lower=tuple(lower), upper=tuple(upper))


def stored_at_random(ways: Iterable[tuple[str, str]], seed: int = 2) -> Iterator[Taken]:
    """A store or reduction of elements, (way, element), of each rank, as a GPU takes them."""
    draw = random.Random(seed)
    for (way, element), rank in product(ways, CORNER_BITS):
        made = inside(drawn(draw, rank, element, draw.choice(list(MODES))))
        at = start(draw, made)
        yield Taken(made, (max(at[0], 0), *at[1:-1], max(at[-1], 0)), (), 128 * draw.randint(0, 7), way)


def stores() -> Iterator[tuple[str, str]]:
    """A store of each element type, and each reduction of each that it combines."""
    yield from (("store", element) for element in ELEMENTS)
    yield from ((way, element) for way in REDUCTIONS for element in ELEMENTS if combines(way, element))


def combines(operation: str, element: str) -> bool:
    """Whether the emulator has a reduction of these elements."""
    with suppress(OperandError):
        return bool(box_reduction(tcemu.parse(WAYS[operation][1].format(3)), element))
    return False


def stopping_stores() -> Iterator[Taken]:
    """Stores that stop a GPU: a bounding box or a start outside the tensor, another mode, elements that do not fit."""
    for rank in CORNER_BITS:
        nothing = (0,) * (rank - 2)
        for axis in range(rank - 2):
            out = tuple(int(place == axis) for place in range(rank - 2))
            yield Taken(image(rank, lower=tuple(-each for each in out), upper=nothing), (0,) * rank, way="store")
            yield Taken(image(rank, lower=nothing, upper=out), (0,) * rank, way="store")
    made = image(4, lower=(1, 1), upper=(-1, -1))
    for at in ((0, 0, 1, 0), (0, 5, 1, 0), (0, 1, 4, 0), (0, 1, 1, -1), (4, 1, 1, 0), (-8, 1, 1, 0)):
        yield Taken(made, at, way="store")
    yield Taken(made, (0, 1, 1, 0), offset=64, way="store")
    yield Taken(TensorMap(0, "u16", made.sizes, made.strides, (8, 2, 2, 2)), (0,) * 4, way="store")
    yield Taken(image(4, lower=(-1, 0), upper=(0, 0)), (0,) * 4, way="add")


def reduced(mode: str) -> Iterator[Taken]:
    """Each reduction of each element type, in tile mode ("tile ") or im2col mode (""): some stop a GPU."""
    for way, element in product(REDUCTIONS, ELEMENTS):
        unit = 16 // ELEMENTS[element].bytes
        boxed: dict[str, Any] = {"sizes": (unit, 4, 2), "strides": (16, 64)}
        made = Im2colMap(0, element, **boxed, box=(unit, 6))
        yield Taken(TensorMap(0, element, **boxed, box=(unit, 3, 1)) if mode else made, (0, 1, 0), way=mode + way)


# ------------------------------------------------------------------------------------------------ recording


def golden() -> dict[str, Any]:
    """The golden file."""
    return json.loads((GOLDEN / NAME).read_text(encoding="utf-8"))


def record(folder: Path) -> None:
    """Run every copy of the golden file on this machine's GPU and write the answers."""
    device = live.device()
    driver = str(device).split(", ", 1)[1].removeprefix("driver ")
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    held = golden()
    provenance = held["provenance"] | {"gpu": device.name, "target": device.target, "driver": driver, "date": date}
    rows = [[*row, Taken.of(row).gpu_answer()] for *row, _ in held["copies"]]
    text = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    head = json.dumps(provenance, indent=1)
    (folder / NAME).write_text(f'{{"provenance": {head},\n"copies": [\n{text}\n]}}\n', "utf-8")
    print(f"{len(rows)} copies in {folder / NAME}")


if __name__ == "__main__":
    record(Path(sys.argv[1]))
