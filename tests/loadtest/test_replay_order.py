from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from loadtest.order_agent import Answers, Workload
from loadtest.order_rules import RULES
from loadtest.replay_order import record, recorded_calls, replays_of


async def both(workload: Workload, folder: Path, *, with_lanes: bool) -> tuple[Answers, list[Answers]]:
    """What the tasks of a workload were told when it was recorded, and in two replays."""
    expected = await record(workload, folder, 1, with_lanes=with_lanes)
    replays = [told async for _, told in replays_of(workload, folder, (7, 8), with_lanes=with_lanes)]
    return expected, replays


def test_tasks_with_lanes_that_share_every_key_see_what_was_recorded_in_whatever_order_they_run(
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o700)
    workload = Workload(tasks=4, shared=1.0, steps=5)
    expected, replays = asyncio.run(both(workload, tmp_path / "session", with_lanes=True))
    assert [len(each) for each in expected] == [5] * 4
    assert replays == [expected, expected]


def test_tasks_without_lanes_see_what_was_recorded_where_their_requests_tell_them_apart(
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o700)
    workload = Workload(tasks=4, shared=0.0, steps=5)
    expected, replays = asyncio.run(both(workload, tmp_path / "session", with_lanes=False))
    assert replays == [expected, expected]


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_of_other_tools_answers_a_single_task_as_recorded_or_with_the_first_answer(
    rule: str, tmp_path: Path
) -> None:
    workload = Workload(tasks=1, shared=1.0, steps=30)
    folder = tmp_path / "session"
    told = asyncio.run(record(workload, folder, 1, with_lanes=False))[0]
    calls = recorded_calls(folder)
    assert [call.answer for call in calls] == told
    ask = RULES[rule](calls)

    async def again() -> list[str]:
        return [await ask(0, call.tool, call.key) for call in calls]

    assert (asyncio.run(again()) == told) == (rule != "first match")
