"""THE TABLE of ordinary instructions, those of a single thread: spelling, types, meaning, how it is known."""
