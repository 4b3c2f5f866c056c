"""Tensor maps of im2col mode: a copy takes pixels of a convolution's input instead of a box (PTX ISA 9.1, 5.5.4).

The channels are the innermost dimension of the tensor, then come one to three dimensions of space and the images:
C W N, C W H N or C W H D N. A bounding box in space says where a filter may start: from `lower` to the sizes + `upper`;
a convolution pads by -lower and has -lower - upper + 1 pixels of filter. From its coordinates on, a copy takes `box[1]`
pixels of `box[0]` channels each: along W, by the element stride, as far as the bounding box reaches; then from its
lower corner in the next line of H, then of D, then in the next image. A load adds its offsets, the place in the filter,
to each pixel. In shared memory each pixel is a line: a row of the matrix A of an implicit GEMM.

A store or a reduction has no offsets, and its bounding box must lie inside the tensor.

    5 pixels of W, a filter of 3, padded by 1:     offset    pixels, -1 and 5 are filled
    lower -1, upper -1                                  0    -1  0  1  2  3
                                                        1     0  1  2  3  4
                                                        2     1  2  3  4  5

A load fills pixels outside the tensor, and a store leaves them out.

How this is known: silicon. tests/golden/sm_90a-im2col-copies.json holds what an H100 answered for every rank, element
type and swizzle, for corners, strides and offsets at random, for edges, for every reduction, and what makes it stop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, briefly
from tcemu.machine.tensor_map import Fill, Tensor, TensorMap
from tcemu.machine.tensor_map_numbers import all_within, whole_numbers

Array = npt.NDArray[Any]

#: By rank, the bits of a corner, which is signed, and of an offset, which is not.
CORNER_BITS = {3: 16, 4: 8, 5: 5}
#: The most channels of a pixel and pixels of a copy.
_CHANNELS, _PIXELS = 256, 1024
_SECTION = "PTX ISA 5.5.4"


@dataclass(frozen=True)
class Im2colMap(TensorMap):
    """A tensor in global memory and the pixels that one copy in im2col mode moves; innermost dimension first.

    `box` is the number of channels of a pixel and of pixels: channelsPerPixel and pixelsPerColumn of
    cuTensorMapEncodeIm2col. `lower` and `upper` are the corners of the bounding box, W first, without channels and
    images: `lower` counts from the first pixel and `upper` from the last one; without them, the box is the whole image.
    `element_strides` are those of the convolution. They do not make a copy smaller, and the last one counts images.

    Raises OperandError for what the driver does not accept.

    >>> from tcemu.machine.im2col import Im2colMap
    >>> image = Im2colMap(0, "f16", (64, 5, 5, 2), (128, 640, 3200), (64, 25), lower=(-1, -1), upper=(-1, -1))
    >>> image.pixels((0, -1, -1, 0), offsets=(2, 0))[:6]  # W, H and image: a filter of 3 x 3, padded by 1
    [(1, -1, 0), (2, -1, 0), (3, -1, 0), (4, -1, 0), (5, -1, 0), (1, 0, 0)]
    """

    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()

    encoder: ClassVar[str] = "cuTensorMapEncodeIm2col"
    mode: ClassVar[str] = "im2col"
    ranks: ClassVar[tuple[int, int]] = (min(CORNER_BITS), max(CORNER_BITS))

    def __post_init__(self) -> None:
        space = len(whole_numbers("sizes", self.sizes)) - 2
        for name in ("lower", "upper"):
            object.__setattr__(self, name, whole_numbers(name, getattr(self, name)) or (0,) * space)
        super().__post_init__()

    def _counts(self, rank: int) -> dict[str, int]:
        return {**super()._counts(rank), "box": 2, "lower": rank - 2, "upper": rank - 2}

    def _unboxed(self) -> Iterator[str]:
        channels, pixels = self.box
        if not (1 <= channels <= _CHANNELS and 1 <= pixels <= _PIXELS):
            yield f"box must be 1 to {_CHANNELS} channels and 1 to {_PIXELS} pixels; got {self.box}"
        most = 1 << CORNER_BITS[self.rank] - 1
        for name in ("lower", "upper"):
            if not all_within(getattr(self, name), -most, most - 1):
                yield f"{name} must be {-most} to {most - 1} for {self.rank} dimensions; got {getattr(self, name)}"
        if any(low >= end for low, end in zip(self.lower, self._ends, strict=True)):
            yield (
                f"the bounding box is empty: it goes from {self.lower} to below {self._ends}, the sizes "
                f"{self.sizes[1:-1]} + upper {self.upper}"
            )

    @classmethod
    @explained
    def of(
        cls,
        tensor: Tensor,
        box: Sequence[int],
        *,
        swizzle: int = 0,
        fill: Fill = "zeros",
        element: str | None = None,
        element_strides: Sequence[int] = (),
        lower: Sequence[int] = (),
        upper: Sequence[int] = (),
    ) -> Self:
        """The map of a whole array, C-contiguous, of images: its last axis is the channels.

        `box` is (channels, pixels). Raises OperandError as TensorMap.of does, and as the constructor does.
        """
        made = super().of(tensor, box, swizzle=swizzle, fill=fill, element=element, element_strides=element_strides)
        return replace(made, lower=tuple(lower), upper=tuple(upper))

    # ------------------------------------------------------------------------------------------ derived

    @cached_property
    def copied(self) -> tuple[int, ...]:
        """Channels and pixels that one copy moves; strides do not change them."""
        return self.box

    @property
    def _ends(self) -> tuple[int, ...]:
        """The bounding box ends before these, W first."""
        return tuple(size + up for size, up in zip(self.sizes[1:-1], self.upper, strict=True))

    def __str__(self) -> str:
        channels, pixels = self.box
        swizzle = f"{self.swizzle}-byte swizzle" if self.swizzle else "no swizzle"
        return (
            f"{pixels} pixels of {channels} channels of a tensor {' × '.join(map(str, self.sizes))} of {self.element}, "
            f"bounding box {self.lower} to {self._ends}, {swizzle}"
        )

    # ------------------------------------------------------------------------------------------ copies

    def pixels(self, coordinates: Sequence[int], offsets: Sequence[int] = ()) -> list[tuple[int, ...]]:
        """The pixels of a copy, in order: their coordinates without the channels. Raises as `pieces` does."""
        return self._taken(self._start(coordinates, storing=False), self._offsets(offsets))

    def _taken(self, start: Sequence[int], offsets: Sequence[int]) -> list[tuple[int, ...]]:
        *place, image = start[1:]
        *steps, images = self.element_strides[1:]
        bounds = tuple(enumerate(zip(steps, self.lower, self._ends, strict=True)))
        positions = []
        for _ in range(self.box[1]):
            positions.append((*(at + more for at, more in zip(place, offsets, strict=True)), image))
            for axis, (step, low, end) in bounds:
                place[axis] += step
                if place[axis] < end:
                    break
                place[axis] = low
            else:
                image += images
        return positions

    def _lines(self, start: Sequence[int], moved: Sequence[int]) -> tuple[Array, npt.NDArray[np.bool_]]:
        positions = np.array(self._taken(start, moved), np.int64)
        inside: npt.NDArray[np.bool_] = np.all((positions >= 0) & (positions < self.sizes[1:]), axis=1)
        return positions @ np.array(self.strides, np.int64), inside

    def _holds(self, start: Sequence[int]) -> bool:
        """Never: which pixels a copy takes depends on where it starts in the bounding box."""
        return False

    def _start(self, coordinates: Sequence[int], storing: bool) -> tuple[int, ...]:
        if storing and not (all(low >= 0 for low in self.lower) and all(up <= 0 for up in self.upper)):
            raise OperandError(
                f"a store in im2col mode takes a map whose bounding box lies inside the tensor, with no lower below 0 "
                f"and no upper above 0; got lower {self.lower} and upper {self.upper}. A GPU stops with an illegal "
                f"instruction ({_SECTION})"
            )
        start = super()._start(coordinates, storing)
        if not all(low <= at < end for at, low, end in zip(start[1:-1], self.lower, self._ends, strict=True)):
            raise OperandError(
                f"a copy in im2col mode must start in the bounding box, {self.lower} to below {self._ends} without "
                f"channels and images; got coordinates {start}. A GPU stops with an illegal instruction "
                f"({_SECTION}.1)"
            )
        return start

    def _offsets(self, offsets: Sequence[int]) -> tuple[int, ...]:
        space, most = self.rank - 2, (1 << CORNER_BITS[self.rank]) - 1
        moved = whole_numbers("offsets", offsets) or (0,) * space
        if len(moved) != space or not all_within(moved, 0, most):
            raise OperandError(
                f"a tensor of {self.rank} dimensions needs {space} offsets, W first, each 0 to {most}; got "
                f"{briefly(offsets)} ({_SECTION}.1)"
            )
        return moved
