"""What the fake endpoint answers: our four tasks by simple rules, vectors by hashing, and the ways to spoil both."""

from __future__ import annotations

import base64
import json
import math
import re
import struct
import zlib
from collections.abc import Mapping
from typing import Any

WRAPPERS = {"l1-extraction": "scenes", "l1-reconcile": "decisions"}
SAID = "User said: "

_MARKER = re.compile(r"\A\[memory-tencentdb task=([\w-]+) ")
_MESSAGE = re.compile(r"^\[([^\]\s]+)\] \[(\w+)\] \[([^\]]+)\]: ?(.*)$")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；])|\n+")
_FIRST_PERSON = re.compile(r"\b(i|i'm|i've|my|me|we|our|us)\b|我|咱", re.I)
_RULE = re.compile(r"\b(always|never|from now on|don't ever)\b|以后|不要|总是|永远|从现在开始", re.I)
_REMEMBER = re.compile(r"\bremember\b|记住|记得", re.I)
_DAY = re.compile(
    r"\b\d{4}-\d\d-\d\d\b|\b(yesterday|today|tomorrow|last (week|night|month|year))\b"
    r"|\b(january|february|march|april|may|june|july|august|september|october|november|december) \d"
    r"|昨天|今天|明天|上周|\d+月\d+日",
    re.I,
)
_TOPICS = {
    "work": re.compile(r"\b(work|job|project|team|deploy|code|server|meeting|company)\w*|工作|项目|公司", re.I),
    "travel": re.compile(r"\b(travel|trip|flight|flew|visit|hotel)\w*|旅行|飞|出差", re.I),
    "food and health": re.compile(r"\b(eat|food|allerg|nut|tea|coffee|doctor|diet)\w*|吃|喝|过敏|医生", re.I),
}


def task_of(system: str) -> str:
    marker = _MARKER.match(system)
    return marker.group(1) if marker else "chat"


def texts_of(body: Mapping[str, Any]) -> tuple[str, str]:
    """The system and the user text of a chat request."""
    texts: dict[str, list[str]] = {"system": [], "user": []}
    for message in body.get("messages", []):
        if message.get("role") in texts:
            texts[message["role"]].append(str(message.get("content") or ""))
    return "\n".join(texts["system"]), "\n".join(texts["user"])


def inputs_of(body: Mapping[str, Any]) -> list[str]:
    given = body.get("input", [])
    return [given] if isinstance(given, str) else list(given)


def section(text: str, name: str) -> str:
    """The body of `<name>...</name>` on lines of their own; "" when there is none."""
    found = re.search(rf"^<{name}>[ \t]*\n(.*?)^</{name}>", text, re.S | re.M)
    return found.group(1).strip("\n") if found else ""


def rows(text: str, name: str) -> list[dict[str, Any]]:
    """A section's JSON lines."""
    return [json.loads(line) for line in section(text, name).splitlines() if line.strip().startswith("{")]


def compute(task: str, user: str) -> Any:
    if task == "l1-extraction":
        return _extract(user)
    if task == "l1-reconcile":
        return _reconcile(user)
    if task == "l2-scenes":
        return _scenes(user)
    if task == "l3-persona":
        return _persona(user)
    return f"ok: {user[:40]}"


# ------------------------------------------------------------------------------------------------------ tasks


def _messages(user: str) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    for line in section(user, "messages").splitlines():
        head = _MESSAGE.match(line)
        if head:
            found.append((head.group(1), head.group(2), head.group(4)))
        elif found and line.startswith("  "):
            known = found[-1]
            found[-1] = (known[0], known[1], known[2] + "\n" + line[2:])
    return found


def _extract(user: str) -> list[dict[str, Any]]:
    scenes: dict[str, dict[str, Any]] = {}
    for message_id, role, text in _messages(user):
        if role != "user":
            continue
        for sentence in (part.strip() for part in _SENTENCE_END.split(text)):
            if not _worth_keeping(sentence):
                continue
            name = _topic(sentence)
            scene = scenes.setdefault(name, {"scene_name": name, "message_ids": [], "memories": []})
            if message_id not in scene["message_ids"]:
                scene["message_ids"].append(message_id)
            scene["memories"].append(_memory(sentence, message_id))
    return list(scenes.values())


def _worth_keeping(sentence: str) -> bool:
    if not sentence or sentence.endswith(("?", "？")):
        return False
    return any(pattern.search(sentence) for pattern in (_FIRST_PERSON, _RULE, _REMEMBER))


def _topic(sentence: str) -> str:
    if _RULE.search(sentence):
        return "rules"
    return next((name for name, words in _TOPICS.items() if words.search(sentence)), "daily life")


def _memory(sentence: str, message_id: str) -> dict[str, Any]:
    kind = "instruction" if _RULE.search(sentence) else "episodic" if _DAY.search(sentence) else "persona"
    day = re.search(r"\b\d{4}-\d\d-\d\d\b", sentence)
    metadata = {"activity_start_time": day.group(0)} if day else {}
    return {
        "content": SAID + sentence,
        "type": kind,
        "priority": 80 if kind == "instruction" else 70,
        "source_message_ids": [message_id],
        "metadata": metadata,
    }


def _words(content: str) -> list[str]:
    return re.findall(r"[\w']+?(?=[\u4e00-\u9fff]|\b)|[\u4e00-\u9fff]", content.removeprefix(SAID).lower())


def _reconcile(user: str) -> list[dict[str, Any]]:
    candidates = {row["id"]: row for row in rows(user, "candidates")}
    return [_decide(new, candidates) for new in rows(user, "new")]


def _decide(new: dict[str, Any], candidates: dict[str, dict[str, Any]]) -> dict[str, Any]:
    words = _words(new["content"])
    known = [(key, _words(candidates[key]["content"])) for key in new.get("related", []) if key in candidates]
    same = [key for key, others in known if others == words]
    if same:
        return {"record_id": new["id"], "action": "skip", "target_ids": same[:1], "reason": "known"}
    changed = [key for key, others in known if others[:5] == words[:5]]
    if changed:
        return {
            "record_id": new["id"],
            "action": "update",
            "target_ids": changed[:1],
            "merged_content": new["content"],
            "merged_type": new.get("type"),
            "merged_priority": new.get("priority"),
            "reason": "a newer value",
        }
    return {"record_id": new["id"], "action": "store", "target_ids": []}


def _slug(name: str) -> str:
    return re.sub(r"[\W_]+", "-", name.lower()).strip("-")


def _lines(scene: Mapping[str, Any]) -> list[dict[str, Any]]:
    parts = scene.get("sections") or []
    return [line for part in parts for line in part.get("lines", []) if line.get("text")]


def _scenes(user: str) -> dict[str, Any]:
    known = {_slug(row["name"]): row for row in rows(user, "scenes")}
    limits = next(iter(rows(user, "limits")), {})
    room = int(limits.get("max_scenes", 15)) - int(limits.get("count", len(known)))
    grouped: dict[str, list[dict[str, Any]]] = {}
    for atom in rows(user, "atoms"):
        name = str(atom.get("scene_name") or "daily life")
        if (
            _slug(name) not in known
            and name not in grouped
            and known
            and sum(_slug(other) not in known for other in grouped) >= max(room, 0)
        ):
            name = known[min(known, key=lambda key: known[key].get("heat", 0))]["name"]
        grouped.setdefault(name, []).append(atom)
    operations = [_scene_operation(name, atoms, known.get(_slug(name))) for name, atoms in grouped.items()]
    return {"operations": operations}


def _scene_operation(name: str, atoms: list[dict[str, Any]], scene: dict[str, Any] | None) -> dict[str, Any]:
    lines = [{"text": line["text"], "sources": line.get("sources", [])} for line in _lines(scene or {})]
    texts = {line["text"] for line in lines}
    lines += [{"text": a["content"], "sources": [a["id"]]} for a in atoms if a["content"] not in texts]
    return {
        "op": "update" if scene else "create",
        "scene": scene["name"] if scene else name,
        "summary": f"What is known about {name}",
        "sections": [{"heading": "Facts", "lines": lines}],
    }


def _persona(user: str) -> dict[str, Any]:
    current = next(iter(rows(user, "persona")), {})
    lines = {line["text"]: list(line.get("sources", [])) for line in _lines(current)}
    for scene in rows(user, "scenes"):
        for line in _lines(scene):
            lines.setdefault(line["text"], list(line.get("sources", [])) or [scene["name"]])
    body = [{"text": text, "sources": sources} for text, sources in lines.items()]
    return {"sections": [{"heading": "About the user", "lines": body}]}


# ------------------------------------------------------------------------------------------------------ envelopes


def completion(body: Mapping[str, Any], prompt: str, text: str, mode: str, params: Mapping[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    finish = str(params.get("finish", "stop"))
    if mode == "null_content":
        message["content"] = None
    elif mode == "content_filter":
        message["content"], finish = "", "content_filter"
    elif mode == "refusal":
        message |= {"content": None, "refusal": "I can't help with that."}
    elif mode == "prose":
        message["content"] = "I'm sorry, but I can't help with that request."
    elif mode == "malformed":
        message["content"] = text[: max(1, len(text) // 2)] + "}}]"
    elif mode == "truncated":
        message["content"], finish = text[: int(len(text) * float(params.get("keep", 0.6)))], "length"
    elif mode == "reasoning_only":
        message |= {"content": "", "reasoning_content": f"I would answer {text}"}
    tokens_in, tokens_out = -(-len(prompt) // 4), -(-len(text) // 4)
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "created": 1,
        "model": body.get("model", "fake-model"),
        "choices": [] if mode == "empty_choices" else [choice],
        "usage": {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out},
    }


def vector(text: str, dim: int) -> list[float]:
    """A unit vector: words and character pairs, hashed into `dim` places. Similar texts lie close."""
    values = [0.0] * dim
    words = re.findall(r"\w+", text.lower()) or ["\0" + text]
    pairs = [word[i : i + 2] for word in words for i in range(len(word) - 1)]
    for feature, weight in [(f"w {word}", 1.0) for word in words] + [(f"p {pair}", 0.4) for pair in pairs]:
        code = zlib.crc32(feature.encode("utf-8", "surrogatepass"))
        values[code % dim] += weight if code & 0x10000 else -weight
    length = math.sqrt(sum(value * value for value in values))
    if not length:
        return [1.0, *values[1:]]
    return [value / length for value in values]


def embeddings(body: Mapping[str, Any], dim: int, mode: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
    texts = inputs_of(body)
    width = int(body.get("dimensions") or dim)
    if mode == "wrong_dim":
        width = int((params or {}).get("dim", width // 2))
    encode = mode == "base64" or body.get("encoding_format") == "base64"
    data = []
    for index, text in enumerate(texts):
        values: Any = _spoil(vector(text, width), mode)
        if encode and isinstance(values, list):
            values = base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()
        data.append({"object": "embedding", "index": index, "embedding": values})
    if mode == "fewer" and len(data) > 1:
        data = data[:-1]
    if mode == "shuffled":
        data.reverse()
    tokens = -(-sum(map(len, texts)) // 4)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "model": body.get("model", "fake-emb"), "data": data, "usage": usage}


def as_zeroentropy(answer: dict[str, Any]) -> dict[str, Any]:
    return {"results": [{"embedding": row["embedding"]} for row in answer["data"]], "usage": answer["usage"]}


def _spoil(values: list[float], mode: str) -> Any:
    if mode == "zero":
        return [0.0] * len(values)
    if mode == "nan":
        return [math.nan, *values[1:]]
    if mode == "null":
        return None
    if mode == "strings":
        return [str(value) for value in values]
    return values
