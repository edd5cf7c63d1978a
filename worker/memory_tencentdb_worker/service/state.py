"""The state of the worker as a pure function of what is known about it.

ok        everything works; also without a model, which is a chosen mode
lagging   work is late: a job is overdue, or tries again after a failure
degraded  a part is missing or needs a person: a wrong setting, vectors that cannot be had, a disk that fills up
paused    no model call is made: key, quota or model name was refused
broken    the store cannot be read or written

`service/reasons.py` has every reason with the state that it means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memory_tencentdb_worker.service.reasons import SEVERITY, Reason, reason

OVERDUE_SECONDS = 600
"""A due job that is older than this makes the state `lagging`."""

OUTBOX_STANDS_SECONDS = 180
"""A worker takes over what waits in the outbox every half minute: what has waited longer while it was up stands."""


@dataclass(frozen=True)
class Circumstances:
    """Everything the state depends on."""

    now: int
    oldest_due_at: int | None = None
    retrying: int = 0
    last_error: str = ""  # of the model
    parked: int = 0
    nothing_read_since: int | None = None
    config_errors: int = 0
    config_broken: str = ""
    embedding_problem: str = ""
    paused: Sequence[Reason] = ()  # what the pipeline waits for, and failures of the store
    started_at: int | None = None
    stuck_at: int | None = None  # when the former worker ended itself
    outbox_since: int | None = None  # when the oldest turn in the outbox was put there


def assess(facts: Circumstances) -> tuple[str, list[Reason]]:
    """The worst state that a reason names, and the reasons, worst first."""
    reasons = [*facts.paused, *_config_reasons(facts), *_embedding_reasons(facts), *_job_reasons(facts)]
    reasons += [*_outbox_reasons(facts), *_former_reasons(facts)]
    reasons.sort(key=lambda each: -SEVERITY.index(each.state))
    return (reasons[0].state if reasons else "ok"), reasons


def _config_reasons(facts: Circumstances) -> list[Reason]:
    reasons: list[Reason] = []
    if facts.config_broken:
        message = f"the configuration file could not be read: {facts.config_broken}"
        reasons.append(reason("config_file", message, facts.started_at))
    if facts.config_errors:
        count = facts.config_errors
        settings = "1 setting is wrong" if count == 1 else f"{count} settings are wrong"
        reasons.append(reason("config", f"{settings} and not in use", facts.started_at))
    return reasons


def _embedding_reasons(facts: Circumstances) -> list[Reason]:
    if not facts.embedding_problem or any(each.code.startswith(("embedding", "vectors")) for each in facts.paused):
        return []
    message = f"search by meaning is away, words alone are used: {facts.embedding_problem}"
    return [reason("embedding", message, None)]


def _job_reasons(facts: Circumstances) -> list[Reason]:
    reasons: list[Reason] = []
    overdue = facts.oldest_due_at is not None and facts.now - facts.oldest_due_at > OVERDUE_SECONDS * 1000
    if overdue and not any(each.state == "paused" for each in facts.paused):
        reasons.append(reason("overdue", "work has been due for more than ten minutes", facts.oldest_due_at))
    if facts.retrying:
        jobs = "1 job failed and is" if facts.retrying == 1 else f"{facts.retrying} jobs failed and are"
        why = f": {facts.last_error}" if facts.last_error else ""
        reasons.append(reason("retrying", f"{jobs} tried again later{why}", None))
    if facts.parked:
        jobs = "1 piece of work was" if facts.parked == 1 else f"{facts.parked} pieces of work were"
        message = f"{jobs} set aside because the model's answer could not be used; the messages are kept"
        reasons.append(reason("parked", message, None))
    if facts.nothing_read_since is not None:
        message = "the last messages could not be turned into facts, and none have been since"
        reasons.append(reason("nothing_read", message, facts.nothing_read_since))
    return reasons


def _former_reasons(facts: Circumstances) -> list[Reason]:
    if facts.stuck_at is None:
        return []
    return [reason("was_stuck", "the worker was replaced because its writes stood still", facts.stuck_at)]


def _outbox_reasons(facts: Circumstances) -> list[Reason]:
    """Time during which no worker was there to take the turns does not count."""
    if facts.outbox_since is None:
        return []
    since = max(facts.outbox_since, facts.started_at or 0)
    if facts.now - since <= OUTBOX_STANDS_SECONDS * 1000:
        return []
    message = "turns wait in the outbox and are not taken over: they are kept, but not remembered yet"
    return [reason("outbox", message, facts.outbox_since)]
