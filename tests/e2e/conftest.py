"""What the end-to-end tests of one worker share: its processes, started when first needed, ended at the end."""

from collections.abc import Generator

import pytest

from tests.e2e.house import House


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Generator[House]:
    """The processes of this worker."""
    here = House(tmp_path_factory.mktemp("house"))
    try:
        yield here
    finally:
        here.close()
