"""What surrounds the tensor cores: registers, memories, warps that take turns, barriers, asynchronous groups, launches.

A kernel is a Python function that is called once a warp. `launch.py` runs a grid of them; `warp.py` is what a kernel
sees; a module for each chapter of the PTX manual executes its instructions; `events.py` is what observers hear.
"""
