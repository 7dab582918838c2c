"""A gateway in small that a test kills: `victim.py MODE KEEPER [NAMESPACE]`, run as a module from the project's root.

MODE `family` starts the nastiest peer, prints the pids of its family as one JSON line and waits; `churn`
prints an empty line and then starts and stops peers without end. NAMESPACE is what its peers are marked with instead
of the real one, so that other gateways leave them alone.
"""

from __future__ import annotations

import asyncio
import sys

from gateway.runtime import processes
from gateway.runtime.processes import Owner
from gateway.runtime.supervisor import PeerProcess
from tests.gateway.runtime.process_kit import Listener, Talk, bad_peer, spec


async def family(*, keeper: bool) -> None:
    process = await PeerProcess.start(spec(*bad_peer("whole-family"), keeper=keeper), Listener())
    talk = Talk(process)
    await talk.ask("initialize")
    print(await talk.call_tool("fault"), flush=True)
    await asyncio.Event().wait()


async def churn(*, keeper: bool) -> None:
    owner = Owner.this_process()
    print(flush=True)

    async def one() -> None:
        while True:
            command = ("/bin/sh", "-c", "trap '' TERM; /bin/sleep 300 & exec /bin/cat")
            process = await PeerProcess.start(spec(*command, keeper=keeper, grace_s=0.02), Listener(), owner)
            await process.stop()

    await asyncio.gather(one(), one())


if __name__ == "__main__":
    main = {"family": family, "churn": churn}[sys.argv[1]]
    if namespace := "".join(sys.argv[3:]):
        setattr(processes, "_namespace", lambda: namespace)  # noqa: B010 - it is private
    asyncio.run(main(keeper=sys.argv[2] == "kept"))
