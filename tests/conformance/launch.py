"""Stands for one everything server on stdio: hands its streams to a fork of `prefork.py` and ends with it.

`python -S launch.py SOCKET ERA`. Imports next to nothing, so that it starts in some twenty milliseconds.
"""

import socket
import sys

with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as parent:
    parent.connect(sys.argv[1])
    socket.send_fds(parent, [sys.argv[2].encode()], [0, 1, 2])
    parent.recv(1)
