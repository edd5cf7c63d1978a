"""The breaker of one endpoint, as arithmetic on instants."""

from __future__ import annotations

from memory_tencentdb_worker.pipeline.breaker import EndpointBreaker

MINUTE = 60_000
HOUR = 60 * MINUTE


def test_new_breaker_is_closed() -> None:
    breaker = EndpointBreaker()
    assert (breaker.state(0), breaker.allows(0), breaker.pause, breaker.last_error) == ("closed", True, None, "")


def test_lasting_failure_opens_and_a_probe_closes_again() -> None:
    breaker = EndpointBreaker()
    assert breaker.opened(0, "llm_auth", "wrong key") == MINUTE
    assert (breaker.state(MINUTE - 1), breaker.allows(MINUTE - 1)) == ("open", False)
    assert breaker.state(MINUTE) == "half-open"
    assert breaker.opened(MINUTE, "llm_auth", "wrong key") == 3 * MINUTE
    assert breaker.pause is not None
    assert breaker.pause.since == 0, "the pause began with the first failure"
    breaker.succeeded(3 * MINUTE)
    assert (breaker.state(3 * MINUTE), breaker.last_error, breaker.last_ok_at) == ("closed", "", 3 * MINUTE)


def test_dead_account_costs_at_most_a_dozen_calls_an_hour() -> None:
    breaker, now, calls = EndpointBreaker(), 0, 0
    while now < HOUR:
        now = breaker.opened(now, "llm_quota", "no money")
        calls += 1
    assert calls <= 12
    assert breaker.opened(now, "llm_quota", "no money") - now == 30 * MINUTE


def test_passing_failures_back_off_and_stay_closed() -> None:
    breaker = EndpointBreaker()
    waits = [breaker.failed(0, "busy") for _ in range(8)]
    assert waits == [30_000, MINUTE, 2 * MINUTE, 4 * MINUTE, 8 * MINUTE, *[15 * MINUTE] * 3]
    assert breaker.state(0) == "closed"
    assert not breaker.allows(14 * MINUTE)


def test_endpoints_own_time_is_honoured_within_reason() -> None:
    breaker = EndpointBreaker()
    assert breaker.failed(0, "busy", retry_after_seconds=7) == 7_000
    assert breaker.failed(0, "busy", retry_after_seconds=0) == 1_000
    assert breaker.failed(0, "busy", retry_after_seconds=1e9) == HOUR
