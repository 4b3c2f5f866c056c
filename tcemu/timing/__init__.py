"""What things cost: shared memory's banks and wavefronts, and clock cycles measured on GPUs."""

from tcemu.timing.wavefronts import Claim, Phase, Wavefronts, wavefronts

__all__ = ["Claim", "Phase", "Wavefronts", "wavefronts"]
