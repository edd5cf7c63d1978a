"""The state of the worker as a pure function of what is known about it.

ok        everything works; also without a model, which is a chosen mode
lagging   work is late: a job is overdue, or tries again after a failure
degraded  a part is missing: a wrong setting, vectors that cannot be had
paused    no model call is made: key, quota or model name was refused
broken    the store cannot be read or written
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

OVERDUE_SECONDS = 600
"""A due job that is older than this makes the state `lagging`."""

SEVERITY = ("ok", "lagging", "degraded", "paused", "broken")


@dataclass(frozen=True)
class Reason:
    """Why the state is not `ok` (or, with state `ok`, what is worth knowing). `since` is an instant, if known."""

    code: str
    message: str
    since: int | None
    action: str
    state: str


@dataclass(frozen=True)
class Circumstances:
    """Everything the state depends on."""

    now: int
    oldest_due_at: int | None = None
    retrying: int = 0
    parked: int = 0
    config_errors: int = 0
    config_broken: str = ""
    embedding_problem: str = ""
    paused: Sequence[Reason] = ()  # what the pipeline waits for, and failures of the store
    started_at: int | None = None


def assess(facts: Circumstances) -> tuple[str, list[Reason]]:
    """The worst state that a reason names, and the reasons, worst first."""
    reasons = [*facts.paused, *_config_reasons(facts), *_embedding_reasons(facts), *_job_reasons(facts)]
    reasons.sort(key=lambda reason: -SEVERITY.index(reason.state))
    return (reasons[0].state if reasons else "ok"), reasons


def pause_state(code: str) -> str:
    """The state that a pause of the pipeline means, by its code (the codes of the error tree)."""
    if code.startswith(("disk", "store", "schema")):
        return "broken"
    if code.startswith(("embedding", "vectors")):
        return "degraded"
    if code.startswith(("llm", "budget", "credentials")):
        return "paused"
    return "lagging"


def _config_reasons(facts: Circumstances) -> list[Reason]:
    reasons: list[Reason] = []
    if facts.config_broken:
        reasons.append(
            Reason(
                "config_file",
                f"the configuration file could not be read: {facts.config_broken}",
                facts.started_at,
                "correct the file, then run `memory-tencentdb restart`",
                "degraded",
            )
        )
    if facts.config_errors:
        count = facts.config_errors
        message = "1 setting is wrong" if count == 1 else f"{count} settings are wrong"
        reasons.append(
            Reason(
                "config",
                f"{message} and not in use",
                facts.started_at,
                "see `config.errors` here, correct the configuration, then run `memory-tencentdb restart`",
                "degraded",
            )
        )
    return reasons


def _embedding_reasons(facts: Circumstances) -> list[Reason]:
    if not facts.embedding_problem or any(reason.state == "degraded" for reason in facts.paused):
        return []
    return [
        Reason(
            "embedding",
            f"search by meaning is away, words alone are used: {facts.embedding_problem}",
            None,
            "check `memory.embedding` in the configuration and its endpoint",
            "degraded",
        )
    ]


def _job_reasons(facts: Circumstances) -> list[Reason]:
    reasons: list[Reason] = []
    overdue = facts.oldest_due_at is not None and facts.now - facts.oldest_due_at > OVERDUE_SECONDS * 1000
    if overdue and not any(reason.state == "paused" for reason in facts.paused):
        reasons.append(
            Reason(
                "overdue",
                "work has been due for more than ten minutes",
                facts.oldest_due_at,
                "see the worker's log: `memory-tencentdb logs`",
                "lagging",
            )
        )
    if facts.retrying:
        jobs = "1 job failed and is" if facts.retrying == 1 else f"{facts.retrying} jobs failed and are"
        reasons.append(
            Reason("retrying", f"{jobs} tried again later", None, "see `memory-tencentdb logs` for why", "lagging")
        )
    if facts.parked:
        jobs = "1 piece of work was" if facts.parked == 1 else f"{facts.parked} pieces of work were"
        reasons.append(
            Reason(
                "parked",
                f"{jobs} set aside because the model's answer could not be used; the messages are kept",
                None,
                "`memory-tencentdb flush --parked` tries again",
                "ok",
            )
        )
    return reasons
