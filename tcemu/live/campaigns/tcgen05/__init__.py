"""``tcemu record --tcgen05``: questions for whoever owns a B200, an afternoon's work of the card.

questions.py has what is asked, kernel.py the kernel that asks it, and record.py writes the answers.
"""

__all__ = ["kernel", "questions", "record"]
