"""The tool `bash`: a line for the shell, of whose output the end is shown.

Owns the shell, the parts that are shown while it runs, and what its end is called. Running and ending it is
`commands.py`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from gateway.calls.host.command_calls import Stream, environment
from gateway.calls.host.tool_calls import Bash
from gateway.calls.host.tool_results import result, shell_text
from gateway.calls.host.truncation import Ends, Rolling
from gateway.runtime.host.base import Emit, HostFault, Work
from gateway.runtime.host.commands import directory, run

STRUCTURED_BYTES: Final = 1024 * 1024
"""Of the output in `structuredContent`, for programs rather than models."""
_ONE_STREAM: Final = ("bash", "-c", 'exec bash -c "$0" 2>&1')
"""Runs the line behind it with both streams in one pipe, so that what it says stays in order."""
UPDATE_S: Final = 0.1
"""Between two parts."""


async def bash(work: Work, call: Bash, environ: Mapping[str, str], emit: Emit | None) -> dict[str, Any]:
    """Run a line in the first root. A code other than 0 is a result with `isError`.

    Raises:
        HostFault: It could not be started, or went over a limit: what it has said by then is in the details.
    """
    output, ends = Rolling(), Ends(STRUCTURED_BYTES)
    most = work.bounds.shell_bytes
    loop = asyncio.get_running_loop()
    updated = loop.time()

    async def take(_: Stream, data: bytes) -> bool:
        nonlocal most, updated
        data = data[:most]
        most -= len(data)
        output.add(data)
        ends.add(data)
        if emit is not None and loop.time() - updated >= UPDATE_S:
            text, details = shell_text(output)
            await emit(result(text, details))
            updated = loop.time()
        return most > 0

    limit_s = min(call.timeout or work.bounds.exec_s, work.deadline_s)
    ended = await run(
        work, (*_ONE_STREAM, call.command), where=directory(work, "."), environment=environment(environ, {}),
        limit_s=limit_s, take=take,
    )  # fmt: skip
    output.add(b"", final=True)
    text, details = shell_text(output)
    if ended.limit == "time":
        raise HostFault(
            "timeout", f"the command timed out after {limit_s:g} seconds", "command_time", outcome="unknown",
            advice="give it a longer `timeout`, or let it do less", output=text,
        )  # fmt: skip
    if ended.limit is not None:
        raise HostFault(
            "io", f"the command was ended: it went over the bound of {ended.limit}", f"too_much_{ended.limit}",
            outcome="unknown", retryable=False, output=text,
        )  # fmt: skip
    structured = {
        "output": ends.text(),
        "truncated": ends.omitted > 0,
        "exit_code": ended.code,
        "wall_time_seconds": round(ended.seconds, 1),
    }
    if ended.code:
        status = f"Command exited with code {ended.code}"
        text = f"{text or '(no output)'}\n\n{status}"
        return result(text, details, structuredContent=structured, isError=True)
    return result(text or "(no output)", details, structuredContent=structured)
