"""What endpoints mean by their errors, and what is shown of them."""

from __future__ import annotations

import pytest

from memory_tencentdb_worker.endpoints import (
    error_text,
    is_loopback,
    judge_failure,
    retry_after_seconds,
    scrub,
    shown_address,
)

NOW = 1_772_676_000_000  # 2026-03-05T02:00:00Z


@pytest.mark.parametrize(
    ("status", "message", "kind", "code"),
    [
        (None, "", "transient", "unreachable"),
        (302, "", "transient", "server_error"),
        (400, "API key not valid. Please pass a valid API key.", "terminal", "unauthorised"),
        (400, "Your credit balance is too low", "terminal", "quota"),
        (400, "This model's maximum context length is 8192 tokens", "content", "context_length"),
        (400, "data_inspection_failed", "content", "content_filter"),
        (400, "输入不合法", "content", "bad_request"),
        (413, "", "content", "context_length"),
        (429, "账户余额不足", "terminal", "quota"),
        (429, "You exceeded your current quota, please retry in 20s", "transient", "rate_limit"),
        (529, "overloaded", "transient", "server_error"),
    ],
)
def test_a_failure_is_judged_by_status_and_words(status: int | None, message: str, kind: str, code: str) -> None:
    verdict = judge_failure(status, message)
    assert (verdict.kind, verdict.code) == (kind, code)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("3", 3.0),
        ("0.5", 0.5),
        ("-4", 0.0),
        ("999999", 3600.0),
        ("Thu, 05 Mar 2026 02:00:30 GMT", 30.0),
        ("soon", None),
        ("nan", 0.0),
        ("", None),
    ],
)
def test_retry_after_is_read_in_both_forms(value: str, seconds: float | None) -> None:
    assert retry_after_seconds({"Retry-After": value}, NOW) == seconds


def test_addresses_are_shown_without_credentials() -> None:
    assert shown_address("https://me:pw@api.example:8443/v1?key=1#x") == "https://api.example:8443/v1"
    assert shown_address("http://[::1]:80/v1") == "http://[::1]:80/v1"
    assert scrub("key sk-12345678 here", "sk-12345678") == "key *** here"
    assert scrub("a cat", "a") == "a cat"


def test_loopback_is_this_machine_only() -> None:
    assert all(
        map(is_loopback, ["http://127.0.0.1:1/v1", "http://localhost/v1", "http://[::1]:9/v1", "http://127.9.9.9"])
    )
    assert not any(map(is_loopback, ["https://api.openai.com/v1", "http://10.0.0.1", "http://127.example", ""]))


def test_an_error_body_is_reduced_to_its_message() -> None:
    assert error_text('{"error": {"code": "x", "message": "no"}}') == "x: no"
    assert error_text('{"error": "no"}') == "no"
    assert error_text("<html>\n  bad </html>") == "<html> bad </html>"
