"""The process that holds the GPU, and the way to it.

    here                            there
    device.py   which GPU           worker.py    takes jobs, answers them, ends after a fatal failure
    client.py   starts it, asks     gpu.py       the driver: memory, launches, time limits
                                    compiler.py  NVRTC

    job.py       what is asked and answered, and the frames in which both travel
    troubles.py  what can go wrong, as sentences

Nothing of CUDA is loaded here; a kernel that crashes or hangs takes that process down and not this one.
"""
