"""What things cost: shared memory's wavefronts, clock cycles measured on GPUs, counters and timelines of launches."""

from tcemu.timing.counters import Counters
from tcemu.timing.timeline import Timeline
from tcemu.timing.trace import trace
from tcemu.timing.wavefronts import Claim, Phase, Wavefronts, wavefronts

__all__ = ["Claim", "Counters", "Phase", "Timeline", "Wavefronts", "trace", "wavefronts"]
