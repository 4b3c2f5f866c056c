"""A class on one machine: a JupyterHub whose learners work in boxes, hand in, and get feedback.

    FOLDER/
      learners/NAME/        a learner's home: the course, laid out when the learner's server starts
      submitted/NAME/...    what was handed in, as nbgrader arranges it; `tcemu grade` reads it
      grades/               what `tcemu grade` writes; the feedback pages in it go back to the learners
      hub/                  the hub's own files: passwords, its database, the servers' logs

`tcemu classroom FOLDER` starts it. Where a cluster runs the hub, `learner` and `service` do the same there; see
classroom/kubernetes.
"""

from tcemu.classroom.settings import Classroom, Kernels, Limits

__all__ = ["Classroom", "Kernels", "Limits"]
