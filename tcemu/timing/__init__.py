"""Costs: wavefronts of shared memory, clock cycles measured on GPUs, counters and timelines of launches."""

from tcemu.timing.counters import Counters
from tcemu.timing.timeline import Timeline
from tcemu.timing.trace import trace
from tcemu.timing.wavefronts import Claim, Part, Wavefronts, wavefronts

__all__ = ["Claim", "Counters", "Part", "Timeline", "Wavefronts", "trace", "wavefronts"]
