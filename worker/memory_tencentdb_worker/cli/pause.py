"""`pause` and `resume`: a time, or a session, that is not remembered."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from memory_tencentdb.protocol import PAUSE, RESUME
from memory_tencentdb_worker.cli.connect import find_worker
from memory_tencentdb_worker.cli.exits import DONE, WrongUseError
from memory_tencentdb_worker.cli.family import add_command
from memory_tencentdb_worker.cli.output import plain, print_json

if TYPE_CHECKING:
    from memory_tencentdb_worker.cli.family import Commands


def add_commands(commands: Commands, places: argparse.ArgumentParser) -> None:
    pause = add_command(
        commands, places, "pause", run_pause,
        purpose="remember nothing from now on, or in a span of time; turns that come late are left out too",
        example="pause --until 2026-05-01T18:00",
    )  # fmt: skip
    pause.add_argument("--session", metavar="S", help="only this session, or with * those that match")
    pause.add_argument("--since", default="", metavar="ISO", help="default: now")
    pause.add_argument("--until", default="", metavar="ISO", help="default: until `resume`")
    pause.add_argument("--user-id", metavar="U", help="only this user's memory; default: everybody's")
    resume = add_command(
        commands, places, "resume", run_resume,
        purpose="remember again; what was said in the pause stays out", example="resume",
    )  # fmt: skip
    resume.add_argument("--session", metavar="S", help="end only this session's pause; default: all")
    resume.add_argument("--user-id", metavar="U", help="end only this user's pause; default: everybody's")


def run_pause(args: argparse.Namespace) -> int:
    body = {"session": _session(args), "since": args.since, "until": args.until, **_user(args)}
    answer = find_worker(args).client.post(PAUSE, body)
    if args.json:
        print_json(answer)
    else:
        print(f"nothing is remembered: {describe_pause(answer)}")
    return DONE


def run_resume(args: argparse.Namespace) -> int:
    answer = find_worker(args).client.post(RESUME, {"session": _session(args), **_user(args)})
    if args.json:
        print_json(answer)
    elif not answer["ended"]:
        print("nothing was paused")
    else:
        for one in answer["ended"]:
            print(f"ended: {describe_pause(one)}")
    return DONE


def describe_pause(one: dict[str, Any]) -> str:
    who = "" if one["user_id"] is None else f" of user {plain(one['user_id'])!a}"
    what = f"session {plain(one['session'])}" if one["session"] else "all sessions"
    until = f" until {one['until']}" if one["until"] else " until `resume`"
    return f"{what}{who} from {one['since']}{until}"


def _session(args: argparse.Namespace) -> str:
    """An empty text is all of them, which a script with an empty variable must not get by saying `--session ""`."""
    if args.session is not None and not args.session.strip():
        raise WrongUseError("--session names no session; leave it out for all sessions")
    return args.session or ""


def _user(args: argparse.Namespace) -> dict[str, Any]:
    return {} if args.user_id is None else {"user_id": args.user_id}
