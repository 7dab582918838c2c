"""The host call `exec`: a program with its arguments, run to its end.

Owns what the call answers. Running and ending it is `commands.py`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.calls.host.command_calls import ExecCall, Output, Stream, environment
from gateway.runtime.host.base import Emit, Work, bad_params
from gateway.runtime.host.commands import directory, run


class Exec:
    """Serves `exec`."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Use a gateway's environment, of which commands get a little."""
        self._environ = environ

    async def serve(self, work: Work, emit: Emit) -> dict[str, Any]:
        """Run it. The output is `stdout`, `stderr`, `code`, `killed`, `truncated`; `limit` where it went over one."""
        call = work.granted(ExecCall)
        options = call.options
        try:
            variables = environment(self._environ, options.env)
        except ValueError as error:
            raise bad_params(str(error)) from error
        bounds = work.bounds
        output = Output(min(options.buffer or bounds.output_bytes, bounds.output_bytes))
        texts: dict[Stream, list[str]] = {"stdout": [], "stderr": []}

        async def take(stream: Stream, data: bytes) -> bool:
            await give(stream, output.text(stream, data))
            return not output.is_cut

        async def give(stream: Stream, text: str) -> None:
            if text and options.stream:
                await emit({stream: text})
            elif text:
                texts[stream].append(text)

        ended = await run(
            work, (call.cmd, *call.args), where=directory(work, options.cwd), environment=variables,
            limit_s=min(options.limit_s or bounds.exec_s, work.deadline_s), take=take,
        )  # fmt: skip
        for stream in texts:
            await give(stream, output.rest(stream))
        code = ended.code
        if output.is_cut and code == 0:
            code = 1  # half an output never looks like success
        return {
            **{stream: "".join(pieces) for stream, pieces in texts.items()},
            "code": code,
            "killed": ended.killed,
            "truncated": output.is_cut,
            **({"limit": ended.limit} if ended.limit else {}),
        }
