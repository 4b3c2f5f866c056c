"""Grading: student code runs in an otherwise empty box, and its answers are marked outside, as plain data.

    intake/      what was handed in, read as plain records
    run.py       many submissions: workers, schedulers, and grades that stay
    worker.py    a process that forks for each submission; work.py grades one
    marking.py   one notebook: its cells run in a box, its answers are judged here
    hidden.py    a teacher's hidden tests, beside the judges
    autograde.py what Gradescope runs for one submission
    outside.py   what judges get for the answers of a box; warps.py runs kernels on the machine here
    box.py       bubblewrap, limits, messages
    compilers.py CUDA's compiler in a box of its own
    inside/      what runs in the box
    output/      grades.csv, pages, Gradescope's results, nbgrader's gradebook, the teacher's report

The box itself imports this module, so it imports nothing.
"""

__all__: list[str] = []
