#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the image; it has network.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
apt-get update
apt-get install --yes bubblewrap python3-pip
python3 -m pip install uv || python3 -m pip install --break-system-packages uv
# Ubuntu's own Python may be too old. Students' code runs as another user, who has to reach this one.
export UV_PYTHON_INSTALL_DIR=/opt/uv-python
python3 -m uv venv --python 3.12 "$root/python"
python3 -m uv pip install --python "$root/python/bin/python" -r "$root/source/requirements.txt"
chmod -R go-rwx "$root/source/private"
PYTHONPATH="$root/source/package" "$root/python/bin/python" -m tcemu warm
