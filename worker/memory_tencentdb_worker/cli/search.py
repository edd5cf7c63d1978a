"""`search memories` and `search conversations`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from memory_tencentdb.protocol import SEARCH_CONVERSATIONS, SEARCH_MEMORIES
from memory_tencentdb_worker.cli.connect import find_worker
from memory_tencentdb_worker.cli.exits import DONE
from memory_tencentdb_worker.cli.family import add_command, add_group
from memory_tencentdb_worker.cli.output import plain, print_json, say

if TYPE_CHECKING:
    from memory_tencentdb_worker.cli.family import Commands


def add_commands(commands: Commands, places: argparse.ArgumentParser) -> None:
    kinds = add_group(commands, places, "search", purpose="search what is known, or what was said")
    memories = add_command(
        kinds, places, "memories", run_memories,
        purpose="search the atoms: facts, events and rules", example='search memories "coffee" --type persona',
    )  # fmt: skip
    memories.add_argument("--type", choices=("persona", "episodic", "instruction"))
    memories.add_argument("--scene", metavar="S", help="only atoms whose scene name holds S")
    conversations = add_command(
        kinds, places, "conversations", run_conversations,
        purpose="search the messages word for word", example='search conversations "Lisbon" --limit 3',
    )  # fmt: skip
    conversations.add_argument("--session", default="", metavar="S", help="only this session")
    for parser in (memories, conversations):
        parser.add_argument("query", metavar="QUERY")
        parser.add_argument("--limit", type=int, metavar="N", help="at most N results (default 5)")
        parser.add_argument("--user-id", default="", metavar="U")
        parser.add_argument("--as-of", metavar="ISO", help="answer from what was known and valid then")


def run_memories(args: argparse.Namespace) -> int:
    return _run(args, SEARCH_MEMORIES, {"type": args.type, "scene": args.scene})


def run_conversations(args: argparse.Namespace) -> int:
    return _run(args, SEARCH_CONVERSATIONS, {"session_key": args.session})


def _run(args: argparse.Namespace, route: str, more: dict[str, Any]) -> int:
    body = {"query": args.query, "limit": args.limit, "user_id": args.user_id, "as_of": args.as_of, **more}
    given = {name: value for name, value in body.items() if value is not None}
    answer = find_worker(args).client.post(route, given)
    if args.json:
        print_json(answer)
        return DONE
    for item in answer["items"]:
        kind = item.get("type") or item.get("role") or item["layer"]
        print(f"- [{str(item['at'])[:10]}] {plain(item['text'], keep_lines=False)}  ({item['id']}, {kind})")
    say(f"{answer['total']} found by {answer['strategy']} search" if answer["items"] else "nothing found")
    return DONE
