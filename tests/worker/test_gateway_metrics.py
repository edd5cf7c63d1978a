"""`/metrics` of a real worker, read as Prometheus reads it."""

from __future__ import annotations

import re
from pathlib import Path

from memory_tencentdb_worker.api.metrics import BOUNDS_SECONDS, RequestCounts, request_lines
from processes import WorkerProcess

LINE = re.compile(r'(?P<name>[a-z_]+)(\{(?P<labels>([a-z]+="([^"\\\n]|\\.)*",?)*)\})? (?P<value>[-+0-9.e]+)')


def read(text: str) -> dict[str, float]:
    """By name and labels. Every line is a comment or a sample, every sample's metric was announced."""
    samples, announced = {}, set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            announced.add(line.split()[2])
        elif not line.startswith("# HELP "):
            found = LINE.fullmatch(line)
            assert found, line
            assert re.sub(r"_(bucket|sum|count)$", "", found["name"]) in announced, line
            samples[line.rpartition(" ")[0]] = float(found["value"])
    return samples


def test_state_store_and_requests_are_shown_without_any_name_or_text(tmp_path: Path) -> None:
    worker = WorkerProcess(tmp_path / "home", {})
    worker.start()
    try:
        worker.capture("I live in Porto.", session="secret-session", user_id="somebody")
        with worker.client() as client:
            client.post("/recall", json={})
            client.get("/v1/why/m_unknown")
            client.get("/made/up/path")
            answer = client.get("/metrics")
        open_routes = worker.get("/openapi.json").json()["paths"]
    finally:
        worker.stop()
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = read(answer.text)
    assert samples['memory_tencentdb_stored{kind="turns"}'] == 1
    assert samples['memory_tencentdb_stored{kind="messages"}'] == 2
    states = {name: value for name, value in samples.items() if name.startswith("memory_tencentdb_state{")}
    assert (len(states), sum(states.values())) == (5, 1)
    requests = "memory_tencentdb_http_requests_total"
    assert samples[f'{requests}{{route="/capture",method="POST",status="200"}}'] == 1
    assert samples[f'{requests}{{route="/recall",method="POST",status="422"}}'] == 1
    assert samples[f'{requests}{{route="/v1/why/{{id:path}}",method="GET",status="404"}}'] == 1
    assert samples[f'{requests}{{route="other",method="GET",status="404"}}'] == 1
    assert samples['memory_tencentdb_http_request_seconds_count{route="/capture"}'] == 1
    for kept_back in ("Porto", "secret-session", "somebody", "m_unknown", "made"):
        assert kept_back not in answer.text
    assert "/metrics" in open_routes


def test_buckets_add_up_from_the_shortest_to_all() -> None:
    counts = RequestCounts()
    for seconds in (0.001, BOUNDS_SECONDS[0], 0.3, 60.0):
        counts.note("/recall", "POST", 200, seconds)
    samples = read("".join(request_lines(counts)))
    name = "memory_tencentdb_http_request_seconds"
    found = [samples[f'{name}_bucket{{route="/recall",le="{bound}"}}'] for bound in [*BOUNDS_SECONDS, "+Inf"]]
    assert found == [2, 2, 2, 3, 3, 3, 4]
    assert samples[f'{name}_count{{route="/recall"}}'] == 4
