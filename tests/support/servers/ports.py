"""TCP ports for servers that tests start."""

from __future__ import annotations

import atexit
import socket
from contextlib import ExitStack

_RESERVED = ExitStack()
"""Sockets that are bound to the ports of `free_port` and do not listen. They are closed at the end
of the program."""
atexit.register(_RESERVED.close)


def free_port() -> int:
    """Returns a TCP port of this machine on which nothing listens. Linux gives it to no other
    program while this process lives, and a server that sets SO_REUSEADDR, as almost all do, can
    listen on it."""
    reserved = _RESERVED.enter_context(socket.socket())
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    return int(reserved.getsockname()[1])
