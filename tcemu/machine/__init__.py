"""The machine around the tensor cores; so far its shared memory's banks."""

from tcemu.machine.conflicts import Claim, Phase, Wavefronts, wavefronts

__all__ = ["Claim", "Phase", "Wavefronts", "wavefronts"]
