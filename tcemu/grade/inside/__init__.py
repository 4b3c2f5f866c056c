"""Code that runs inside the box: it sees this package without the rows and judges of the exercises, and one notebook.

The outside does not trust anything that it says about itself. It sends plain values (`wire`), which are marked outside.
"""

__all__: list[str] = []
