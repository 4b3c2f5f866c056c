"""Searches for an order of warps and asynchronous work in which a kernel fails.

    result = tcemu.search_schedules(kernel, grid, block, args, shared=4096)
    print(found)
    tcemu.launch(kernel, grid, block, args, shared=4096, schedule="late 0.1@12")  # repeats a failure

A schedule is an order in one line of text (tcemu.machine.schedule).
"""

from tcemu.machine.schedule import Delay, Schedule
from tcemu.schedules.result import Failure, Level, ScheduleSearch
from tcemu.schedules.search import search_schedules

__all__ = ["Delay", "Failure", "Level", "Schedule", "ScheduleSearch", "search_schedules"]
