"""What `tieline conformance check` prints of what differs: places in lines, and no more of them than can be read."""

from __future__ import annotations

from msgspec import Raw

from gateway.cli.conformance import lines_of
from recordings.difference import Change
from recordings.fixtures import Failure, Fixture


def test_a_list_of_tools_that_is_wholly_another_is_cut_short_and_counted() -> None:
    changes = tuple(
        Change(pointer=f"/tools/{n}", kind="removed", before=Raw(b'{"name":"x"}')) for n in range(60)
    )
    failure = Failure(event="tools/list", ids={"rpc_id": "2"}, what="not the same answer", changes=changes)
    fixture = Fixture(schema="x", scenario_id="files", peers=["files"], requests=[])
    _, _, *places = (line for _, line in lines_of([(fixture, [failure])]))
    assert places[0] == '    /tools/0   removed {"name":"x"}'
    assert places[-1] == "    … and 48 changes more"
    assert len(places) == 13
