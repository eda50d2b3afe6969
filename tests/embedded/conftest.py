"""A folder for each test."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.embedded.place import Place
from tests.support.reaper import reaper


@pytest.fixture
def place() -> Iterator[Place]:
    """A folder for a new server, where any user can get to; all that ran in it ends."""
    path = Path(tempfile.mkdtemp(prefix="embedded-", dir=reaper().folder))
    path.chmod(0o711)
    place = Place(path)
    yield place
    for process in place.users:
        process.kill9()
    place.wait_for_end()
    shutil.rmtree(path)
