"""Who is at the other end of a Unix socket, as the kernel knows it."""

from __future__ import annotations

import os
import socket
import struct
import sys

ROOT = 0


def is_own(peer: socket.socket) -> bool:
    """Whether the other end runs as this process's user, or as root, who could read the files anyway. A second line
    behind the socket's mode and its directory's; where the kernel does not tell, those two decide. Raises OSError
    when the peer is gone."""
    uid = _peer_uid(peer)
    return uid is None or uid in (os.geteuid(), ROOT)


if sys.platform == "linux":

    def _peer_uid(peer: socket.socket) -> int | None:
        _pid, uid, _gid = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return int(uid)

elif sys.platform == "darwin":

    def _peer_uid(peer: socket.socket) -> int | None:
        sol_local, local_peercred = 0, 1  # sys/un.h; struct xucred begins with version and uid
        _version, uid = struct.unpack_from("2I", peer.getsockopt(sol_local, local_peercred, 76))
        return int(uid)

else:

    def _peer_uid(peer: socket.socket) -> int | None:
        return None
