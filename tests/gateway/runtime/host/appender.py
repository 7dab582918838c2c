"""A gateway's part that dies: appends entries to a session until it is killed, and says which ones it has written.

Start: `python appender.py DIRECTORY [MOST_BYTES]`. Each line of stdout is the id of an entry that is in the file. With
MOST_BYTES, files cannot grow beyond it, as on a disk that is full; the last line then is what the store said.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from itertools import count
from pathlib import Path

from gateway.runtime.host.session_store import SessionStore
from gateway.sessions import ops
from gateway.sessions.conversation import Conversation, Done
from gateway.sessions.files import Beginning, StoreError


def main() -> None:
    directory = sys.argv[1]
    if len(sys.argv) > 2:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        most = int(sys.argv[2])
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    beginning = Beginning(seed=str(os.getpid()), at_ms=1_764_000_000_000, cwd="/work", directory=directory)
    conversation = Conversation(beginning, SessionStore(Path(directory)))
    for number in count():
        op = ops.AppendEntry(custom_type="count", data=[number, "x" * 200])
        try:
            done = conversation.serve(op, beginning.at_ms + number, str(number))
        except StoreError as error:
            print(error.reason, flush=True)
            return
        assert isinstance(done, Done)
        print(done.output["id"], flush=True)


main()
