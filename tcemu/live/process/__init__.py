"""The process that holds the GPU, and its client.

    here                            there
    device.py   which GPU           worker.py    receives jobs, answers them, ends after a fatal failure
    client.py   starts and asks it  gpu.py       the driver: memory, launches, time limits
                                    compiler.py  NVRTC

    job.py       jobs and answers; tcemu/child.py carries them
    troubles.py  everything that can go wrong, as sentences

No CUDA code is loaded here; a kernel that crashes or hangs takes down that process, not this one.
"""

__all__ = ["client", "compiler", "device", "gpu", "job", "troubles", "worker"]
