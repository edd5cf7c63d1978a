"""`capture` writes one turn, `recall` builds the context for one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from memory_tencentdb.protocol import CAPTURE, RECALL
from memory_tencentdb_worker.cli.connect import find_worker
from memory_tencentdb_worker.cli.exits import DONE
from memory_tencentdb_worker.cli.family import add_command
from memory_tencentdb_worker.cli.output import plain, print_json, say

if TYPE_CHECKING:
    from memory_tencentdb_worker.cli.family import Commands


def add_commands(commands: Commands, places: argparse.ArgumentParser) -> None:
    capture = add_command(
        commands, places, "capture", run_capture,
        purpose="store one turn: what the user said and what the assistant answered",
        example='capture --session notes --user "I moved to Lisbon" --assistant "Noted."',
    )  # fmt: skip
    capture.add_argument("--session", required=True, metavar="S", help="the session the turn belongs to")
    capture.add_argument("--user", required=True, metavar="TEXT", help="the user's message")
    capture.add_argument("--assistant", required=True, metavar="TEXT", help="the assistant's answer")
    capture.add_argument("--turn-id", default="", metavar="ID", help="the same id twice stores the turn once")
    capture.add_argument("--at", metavar="ISO", help="when it was said; default: now")
    capture.add_argument("--user-id", default="", metavar="U", help="whose memory; default: the default user")
    recall = add_command(
        commands, places, "recall", run_recall,
        purpose="show the context that an agent would be given for a message",
        example='recall "where do I live?" --session chat-1',
    )  # fmt: skip
    recall.add_argument("query", metavar="QUERY", help="the message")
    recall.add_argument("--session", required=True, metavar="S", help="as if this session asked; any name will do")
    recall.add_argument("--max-tokens", type=int, metavar="N", help="hard budget of the volatile part")
    recall.add_argument("--user-id", default="", metavar="U", help="whose memory; default: the default user")
    recall.add_argument("--as-of", metavar="ISO", help="answer from what was known and valid then")


def run_capture(args: argparse.Namespace) -> int:
    body = {
        "user_content": args.user,
        "assistant_content": args.assistant,
        "session_key": args.session,
        "turn_id": args.turn_id,
        "user_id": args.user_id,
        "source": "cli",
        **({"at": args.at} if args.at else {}),
    }
    answer = find_worker(args).client.post(CAPTURE, body)
    if args.json:
        print_json({name: answer.get(name) for name in ("turn_id", "duplicate", "l0_recorded")})
    elif answer["duplicate"]:
        print(f"known already: turn {answer['turn_id']}")
    elif not answer["l0_recorded"]:
        print(f"stored nothing of turn {answer['turn_id']}: memory is paused or off, or all of it is private")
    else:
        print(f"stored {answer['l0_recorded']} messages as turn {answer['turn_id']}")
    return DONE


def run_recall(args: argparse.Namespace) -> int:
    body = {
        "query": args.query,
        "session_key": args.session,
        "user_id": args.user_id,
        **({"max_tokens": args.max_tokens} if args.max_tokens is not None else {}),
        **({"as_of": args.as_of} if args.as_of else {}),
    }
    answer = find_worker(args).client.post(RECALL, body)
    if args.json:
        print_json(answer)
        return DONE
    print(plain(answer["context"]) or "nothing is known about this")
    receipt = answer["receipt"]
    dropped = len(receipt["dropped"])
    found_by = "" if answer["strategy"] == "none" else f" by {answer['strategy']} search"
    say(
        f"{answer['memory_count']} memories{found_by}, {receipt['used_tokens']} of "
        f"{receipt['budget_tokens']} tokens, {dropped} left out, {receipt['elapsed_ms']:.0f} ms"
    )
    return DONE
