"""What the end-to-end tests of one worker share: its processes, started when first needed, ended at the end."""

from collections.abc import Generator

import pytest

from gateway.replay.driven import driven
from recordings.reader import open_recording
from recordings.report import text
from tests.e2e.house import House

DRIVEN = ("stdio-", "http-", "ws-", "unix-", "sse-", "five", "several", "tasks")
"""How the names of those gateways begin whose every session has to come out the same when it is driven."""


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Generator[House]:
    """The processes of this worker."""
    here = House(tmp_path_factory.mktemp("house"))
    try:
        yield here
    finally:
        here.close()
    for header in sorted((here.folder / "recordings").glob("*/*/recording.json")):
        if header.parent.parent.name.startswith(DRIVEN):
            report = driven(open_recording(header.parent))
            assert report.exit_code == 0, text(report)
