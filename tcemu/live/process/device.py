"""Which GPU there is, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from tcemu.errors import GpuUnavailable
from tcemu.instructions.targets import TARGETS, Target, target_named
from tcemu.live.process import client
from tcemu.live.process.troubles import PACKAGES, missing

#: The newest PTX version that a driver accepts, by its CUDA version (CUDA release notes, PTX ISA).
_PTX = {
    11080: "7.8", 12000: "8.0", 12010: "8.1", 12020: "8.2", 12030: "8.3", 12040: "8.4", 12050: "8.5", 12060: "8.5",
    12070: "8.6", 12080: "8.7", 12090: "8.8", 13000: "9.0", 13010: "9.1",
    13050: "9.5",
}  # fmt: skip


@dataclass(frozen=True)
class Device:
    """The GPU that answers.

    >>> card = tcemu.live.Device("NVIDIA H200", (9, 0), cuda=13000, driver="580.159.04", shared=232448)
    >>> card.target, card.ptx, str(card.chip)
    ('sm_90a', '9.0', 'sm_90a')
    """

    #: "NVIDIA H200".
    name: str
    #: Compute capability: (9, 0).
    capability: tuple[int, int]
    #: The driver's CUDA version: 13000 is 13.0.
    cuda: int
    #: The driver's own version, "580.159.04"; empty if the system does not report it.
    driver: str
    #: Bytes of shared memory that a block can have.
    shared: int

    @property
    def target(self) -> str:
        """The target with everything that the chip has: "sm_90a"."""
        plain = "sm_{}{}".format(*self.capability)
        return f"{plain}a" if f"{plain}a" in TARGETS else plain

    @property
    def chip(self) -> Target:
        """The target as a record."""
        return target_named(self.target)

    @property
    def ptx(self) -> str:
        """The newest PTX version that the driver accepts, as far as the table goes."""
        known = [version for since, version in sorted(_PTX.items()) if since <= self.cuda]
        return known[-1] if known else _PTX[11080]

    def __str__(self) -> str:
        cuda = f"CUDA {self.cuda // 1000}.{self.cuda % 1000 // 10}"
        return f"{self.name} ({self.target}), driver {self.driver + ', ' if self.driver else ''}{cuda}"


def device() -> Device:
    """The GPU that live calls run on. Raises GpuUnavailable, which says what is missing and how to fix it.

    >>> print(tcemu.live.device())  # doctest: +SKIP
    NVIDIA H200 (sm_90a), driver 580.159.04, CUDA 13.0
    """
    absent = [package for module, package in PACKAGES.items() if not _installed(module)]
    if absent:
        raise GpuUnavailable(missing(absent))
    answer = client.current().device
    if not isinstance(answer, Device):
        raise GpuUnavailable(f"the process that holds the GPU answered {answer!r}")
    return answer


def available() -> bool:
    """Whether there is a usable GPU. Never raises; without NVIDIA's packages it costs nothing.

    >>> isinstance(tcemu.live.available(), bool)
    True
    """
    return not why_not()


def why_not() -> str:
    """Why there is no usable GPU, and how to fix that; empty if there is one. Never raises.

    >>> tcemu.live.available() == (tcemu.live.why_not() == "")
    True
    """
    try:
        device()
    except Exception as error:  # noqa: BLE001 - whatever is wrong, the answer is that there is none
        return str(error) or type(error).__name__
    return ""


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError, AttributeError):  # the package around it is missing or broken
        return False
