"""`why` goes from any id down to the messages it rests on, `why-not` says what kept it out of a recall; `trace` follows
a turn through the layers; `scene` shows one scene."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from memory_tencentdb.protocol import SCENE, TRACE, WHY, WHY_NOT
from memory_tencentdb_worker.cli.connect import find_worker
from memory_tencentdb_worker.cli.exits import DONE
from memory_tencentdb_worker.cli.family import add_command
from memory_tencentdb_worker.cli.output import indented, plain, print_json

if TYPE_CHECKING:
    from memory_tencentdb_worker.cli.family import Commands


def add_commands(commands: Commands, places: argparse.ArgumentParser) -> None:
    why = add_command(
        commands, places, "why", run_why,
        purpose="show where a memory comes from, down to the messages", example="why m_0123456789abcdef",
    )  # fmt: skip
    why.add_argument("id", metavar="ID", help="an id shown anywhere: atom, message, scene name, persona")
    why_not = add_command(
        commands, places, "why-not", run_why_not,
        purpose="name the first gate that keeps a memory out of a recall",
        example='why-not m_0123456789abcdef "where do I live?"',
    )  # fmt: skip
    why_not.add_argument("id", metavar="ID", help="the memory that was expected")
    why_not.add_argument("query", metavar="QUERY", help="the message for which it was expected")
    why_not.add_argument("--session", default="", metavar="S", help="as if this session asked")
    why_not.add_argument("--max-tokens", type=int, metavar="N", help="hard budget of the volatile part")
    why_not.add_argument("--user-id", default="", metavar="U", help="whose recall; default: the default user")
    trace = add_command(
        commands, places, "trace", run_trace,
        purpose="follow one turn through jobs, model calls, facts, scenes and persona", example="trace turn-7",
    )  # fmt: skip
    trace.add_argument("id", metavar="TURN_ID", help="as `capture` answers it")
    scene = add_command(
        commands, places, "scene", run_scene, purpose="show one scene in full", example="scene Work",
    )  # fmt: skip
    scene.add_argument("name", metavar="NAME", help="its file name, with or without .md")
    for parser in (why, trace, scene):
        parser.add_argument("--user-id", metavar="U", help="only this user's; default: everybody's")


def run_why(args: argparse.Namespace) -> int:
    answer = find_worker(args).client.get(_route(WHY, args.id, args.user_id))
    if args.json:
        former = {"generation": answer["generation"]} if answer.get("generation") else {}
        print_json({name: answer[name] for name in ("id", "layer", "text", "messages")} | former)
        return DONE
    print(f"{plain(answer['id'])}  ({answer['layer']})")
    if answer.get("generation"):
        print("  not in use: of the memories kept for `memory-tencentdb replay rollback`")
    print(indented(answer["text"], "  "))
    messages = answer["messages"]
    for number, message in enumerate(messages, 1):
        _print_message(message, last=number == len(messages))
    if not messages:
        print("  rests on no stored message")
    return DONE


def run_why_not(args: argparse.Namespace) -> int:
    body = {
        "id": args.id,
        "query": args.query,
        "session_key": args.session,
        "user_id": args.user_id,
        "max_tokens": args.max_tokens,
    }
    answer = find_worker(args).client.post(WHY_NOT, body)
    if args.json:
        print_json(answer)
        return DONE
    print(f"{plain(answer['id'])}  ({answer['layer']})  {answer['gate']}: {answer['message']}")
    return DONE


def run_trace(args: argparse.Namespace) -> int:
    answer = find_worker(args).client.get(_route(TRACE, args.id, args.user_id))
    if args.json:
        print_json(answer)
        return DONE
    for turn in answer["turns"]:
        _print_turn(answer["turn_id"], turn)
    return DONE


def run_scene(args: argparse.Namespace) -> int:
    answer = find_worker(args).client.get(_route(SCENE, args.name, args.user_id))
    if args.json:
        print_json(answer)
        return DONE
    print(plain(str(answer.get("content") or answer.get("text") or answer)))
    return DONE


def _route(route: str, name: str, user_id: str | None) -> str:
    """A name that is no text, which a shell may hand over, is asked for all the same: nothing is known under it."""
    path = route.partition("{")[0] + quote(name, safe="", errors="surrogatepass")
    return path if user_id is None else f"{path}?{urlencode({'user_id': user_id}, errors='surrogatepass')}"


def _print_turn(turn_id: str, turn: dict[str, Any]) -> None:
    print(f"{plain(turn_id)}  said {turn['captured_at']}, stored {turn['recorded_at']} by {plain(turn['source'])}, "
          f"session {plain(turn['session_key'], keep_lines=False)}")  # fmt: skip
    for number, message in enumerate(turn["messages"], 1):
        _print_message({**message, "session_key": turn["session_key"]}, last=number == len(turn["messages"]))
    for job in turn["jobs"]:
        more = ", ".join(str(one) for one in (job["due_at"], job["error"]) if one)
        print(f"  {job['layer']}     {job['state']}" + (f" ({plain(more, keep_lines=False)})" if more else ""))
    for call in turn["calls"]:
        print(f"  call   {call['at']}  {call['task']}  {plain(call['model'])}: {call['outcome']}, "
              f"{call['tokens_in']} + {call['tokens_out']} tokens, {call['elapsed_ms']} ms")  # fmt: skip
    for atom in turn["atoms"]:
        ended = "" if atom["live"] else "  (holds no more)"
        print(f"  fact   {atom['id']}  {plain(atom['content'], keep_lines=False)}{ended}")
    for scene in turn["scenes"]:
        for line in scene["lines"]:
            print(f"  scene  {plain(scene['name'])}, revision {scene['revision']}: {plain(line, keep_lines=False)}")
    persona = turn["persona"] or {"lines": []}
    for line in persona["lines"]:
        print(f"  persona, revision {persona['revision']}: {plain(line, keep_lines=False)}")


def _print_message(message: dict[str, Any], *, last: bool) -> None:
    branch, below = ("└─", "   ") if last else ("├─", "│  ")
    proof = "hash ok" if message["hash_ok"] else "HASH DIFFERS"
    print(f"  {branch} {message['id']}  {message['role']}, {message['at']}, "
          f"session {plain(message['session_key'], keep_lines=False)}, {proof}")  # fmt: skip
    print(indented(message["text"], f"  {below}   "))
