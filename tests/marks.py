"""Lines of a test file, found by the comment at their end."""

from pathlib import Path


def line(file, mark):
    """`file:number` of the line that ends with a comment `# mark`."""
    (number,) = (
        n for n, text in enumerate(Path(file).read_text(encoding="utf-8").split("\n"), 1) if text.endswith(f"# {mark}")
    )
    return f"{file}:{number}"
