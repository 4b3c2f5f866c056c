"""What students hand in, honest and hostile, as the real tools pack it."""

import io
import json
import stat
import zipfile

#: An answer to an exercise of 02_fragments.
ANSWER = "def where_of_b(row, column):\n    return 0, 0\n"
STEM = "02_fragments"


def notebook(*sources, **keys):
    """A notebook's bytes, with a cell for each source."""
    cells = [{"cell_type": "code", "id": f"c{number}", "metadata": {}, "outputs": [], "execution_count": None,
              "source": source} for number, source in enumerate(sources)]  # fmt: skip
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **keys}).encode()


GOOD = notebook(ANSWER)


def archive(files, compression=zipfile.ZIP_DEFLATED):
    """A zip archive's bytes: content by name, or by a ZipInfo."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", compression, compresslevel=1) as made:
        for name, content in files.items():
            made.writestr(name, content)
    return held.getvalue()


def linked(name, target):
    """An entry of an archive that is a symbolic link, as Info-ZIP writes it: its content is the target."""
    entry = zipfile.ZipInfo(name)
    entry.create_system, entry.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    return {entry: target}


def folder(root, files):
    """A folder with the files, content by path."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root
