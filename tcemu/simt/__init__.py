"""PTX functions on the machine: 32 lanes in lane groups, registers, memory, calls."""
