"""Running one instruction on the GPU: its kernel, the launch, the answer, and the comparison with the emulator."""
