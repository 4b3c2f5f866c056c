"""One JupyterLab and one browser for all files that open it: starting them takes longer than opening notebooks."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lab import Lab, browser, jupyterlab


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of JupyterLab; the notebooks are in `work`."""
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="session")
def fresh(home: Path) -> Iterator[Callable[[], Lab]]:
    """Open JupyterLab in a fresh page."""
    with jupyterlab(home) as address, browser(address) as opens:
        yield opens
