"""What things cost: shared memory's banks and wavefronts, clock cycles measured on GPUs, and a launch laid out in them."""

from tcemu.timing.counters import Counters
from tcemu.timing.timeline import Timeline
from tcemu.timing.trace import trace
from tcemu.timing.wavefronts import Claim, Phase, Wavefronts, wavefronts

__all__ = ["Claim", "Counters", "Phase", "Timeline", "Wavefronts", "trace", "wavefronts"]
