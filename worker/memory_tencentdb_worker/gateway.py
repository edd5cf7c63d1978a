"""The optional TCP listener: opened when `server.port` is set, and what the log says of its safety."""

from __future__ import annotations

import logging
import socket
from contextlib import ExitStack
from dataclasses import replace

from memory_tencentdb_worker.config.checks import is_loopback
from memory_tencentdb_worker.config.load import with_problem
from memory_tencentdb_worker.config.model import Server
from memory_tencentdb_worker.errors import ConfigError
from memory_tencentdb_worker.places import Places
from memory_tencentdb_worker.socket_file import BACKLOG

logger = logging.getLogger(__name__)


def open_gateway(places: Places, ending: ExitStack) -> tuple[socket.socket | None, Places]:
    """The listening socket, if one is wanted; `ending` closes it. An address that cannot be had (taken, not of this
    machine) costs the gateway only and is listed with the configuration's problems: hosts on the Unix socket go on
    being served. Raises ConfigError when a name that looked like this machine leads elsewhere."""
    server = places.loaded.config.server
    if not server.port:
        return None, places
    try:
        listening = ending.enter_context(listen(server))
    except OSError as error:
        problem = f"there is no gateway: cannot listen on {server.host} port {server.port}: {error.strerror or error}"
        logger.warning("%s", problem)
        return None, replace(places, loaded=with_problem(places.loaded, "server.port", problem, 0))
    log_posture(server)
    return listening, places


def gateway_url(listening: socket.socket | None) -> str:
    if listening is None:
        return ""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def log_posture(server: Server) -> None:
    """One line that says how open the gateway is, and a warning for each thing that opens it further."""
    locked = bool(server.api_key.get_secret_value().strip())
    origins = server.cors_origins
    cors = "wildcard(*)" if "*" in origins else f"allowlist({len(origins)})" if origins else "no-headers"
    auth = "ENABLED (Bearer)" if locked else "disabled"
    logger.info("Security posture: auth=%s host=%s cors=%s", auth, server.host, cors)
    if not locked:
        logger.warning("TDAI_GATEWAY_API_KEY is NOT set: every program of this machine can read and write the memory")
    if "*" in origins:
        logger.warning("server.corsOrigins holds *: every web page may call the gateway")


def listen(server: Server) -> socket.socket:
    """Raises OSError, ConfigError."""
    found = socket.getaddrinfo(server.host.strip("[] "), server.port, type=socket.SOCK_STREAM)
    family, kind, protocol, _name, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    listening = socket.socket(family, kind, protocol)  # with the protocol's number asyncio turns Nagle's delay off
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        _refuse_strangers(server, str(listening.getsockname()[0]))
        listening.listen(BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening


def _refuse_strangers(server: Server, bound: str) -> None:
    if not is_loopback(bound) and not server.api_key.get_secret_value().strip():
        raise ConfigError(f"server.host {server.host} is {bound}, which others can reach: set server.apiKey")
