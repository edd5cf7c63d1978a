"""Secrets: how many of the planted ones are found, how often something else is taken for one, and what it costs.

The texts without secrets are the source and prose of this repository, Python's standard library, and the licences of
the packages that are installed. A real example password in them counts as a false positive too.
"""

from __future__ import annotations

import argparse
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path

from bench.report import percentiles, publish
from memory_tencentdb.redaction import SECRET_RULES, Redactor
from planted_secrets import KINDS, plant

ROOT = Path(__file__).resolve().parent.parent
ORDINARY = "I moved to Lisbon last year and work as a nurse there. Please remember that I like my tea green. "
LARGE_CHARS = 100_000

Find = Callable[[str], list[str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, metavar="N", help="plantings of each kind (default 100)")
    parser.add_argument("--show", action="store_true", help="print what was taken for a secret")
    parser.add_argument("--compare", action="store_true", help="measure detect-secrets beside it, if it is installed")
    options = parser.parse_args()
    redactor, personal = Redactor(b"k" * 32), Redactor(b"k" * 32, personal=True)
    finders: dict[str, Find] = {"rules": _by(redactor), "rules with personal data": _by(personal)}
    if options.compare:
        finders["detect-secrets"] = _detect_secrets()
    rows: list[tuple[str, object]] = [("kinds with a name", len({rule.kind for rule in SECRET_RULES}))]
    figures: dict[str, object] = {}
    for name, find in finders.items():
        kept = [kind for kind in KINDS for seed in range(options.seeds) if _is_kept(kind, str(seed), find)]
        rows.append((f"{name}: planted, not found", f"{len(kept)} of {len(KINDS) * options.seeds}"))
        figures[f"{name}, missed"] = len(kept)
        for corpus, files in _corpora().items():
            begun = time.process_time()
            lines, found = _measure(files, find, show=options.show and name == "rules")
            per_line = (time.process_time() - begun) * 1e6 / lines
            rows.append(
                (
                    f"{name}: {corpus}",
                    f"{found} in {lines} lines ({1000 * found / lines:.2f} a thousand), {per_line:.0f} us",
                )
            )
            figures[f"{name}, {corpus}"] = [found, lines]
    rows += _costs(redactor, figures)
    publish("secrets", rows, figures)


def _by(redactor: Redactor) -> Find:
    return lambda text: [text[found.start : found.end] for found in redactor.find(text)]


def _detect_secrets() -> Find:
    """As it is meant to be used: with its default settings, on files."""
    from detect_secrets.core.scan import scan_file  # noqa: PLC0415 - not among our dependencies
    from detect_secrets.settings import default_settings  # noqa: PLC0415 - as above

    def find(text: str) -> list[str]:
        with tempfile.TemporaryDirectory() as folder, default_settings():
            path = Path(folder) / "text.txt"
            path.write_text(text, encoding="utf-8", errors="replace")
            return [str(one.secret_value) for one in scan_file(str(path))]

    return find


def _is_kept(kind: str, seed: str, find: Find) -> bool:
    """Whether the secret, or a good part of it, would stay."""
    planted = plant(kind, seed)
    rest = planted.sentence
    for secret in find(planted.sentence):
        rest = rest.replace(secret, "")
    return max(planted.secret.splitlines(), key=len)[-12:] in rest


def _corpora() -> dict[str, list[Path]]:
    library = Path(sysconfig.get_path("stdlib"))
    packages = Path(sysconfig.get_path("purelib"))
    own = chain(
        (ROOT / "memory_tencentdb").rglob("*.py"), (ROOT / "worker").rglob("*.py"), (ROOT / "bench").glob("*.py")
    )
    prose = chain((ROOT / "docs").glob("*.md"), ROOT.glob("*.md"), (ROOT / "bench").glob("*.md"))
    licences = chain(packages.glob("*.dist-info/licenses/**/*"), packages.glob("*.dist-info/LICENSE*"))
    standard = chain(library.glob("*.py"), library.glob("[a-z]*/*.py"))
    return {
        "own source": sorted(path for path in own if path.parent.name != "redaction"),
        "own prose": sorted(prose),
        "standard library": sorted(path for path in standard if "site-packages" not in path.parts),
        "licences": sorted(path for path in licences if path.is_file()),
    }


def _measure(files: Iterable[Path], find: Find, *, show: bool) -> tuple[int, int]:
    lines = found = 0
    for path in files:
        text = path.read_text(encoding="utf-8", errors="replace")
        lines += text.count("\n") + 1
        secrets = find(text)
        found += len(secrets)
        for secret in secrets if show else []:
            print(f"{path.name}: {' '.join(secret.split())[:80]}")
    return lines, found


def _costs(redactor: Redactor, figures: dict[str, object]) -> list[tuple[str, object]]:
    source = (Path(sysconfig.get_path("stdlib")) / "urllib/request.py").read_text(encoding="utf-8")
    texts = {
        "turn of 500 characters": (ORDINARY * 6)[:500],
        "turn of 100,000 characters, prose": (ORDINARY * 1100)[:LARGE_CHARS],
        "turn of 100,000 characters, source that handles passwords": (source * 2)[:LARGE_CHARS],
    }
    rows: list[tuple[str, object]] = []
    for name, text in texts.items():
        redactor.redact(text)  # compiles what it needs
        spent = percentiles([_milliseconds(redactor, text) for _ in range(200 if len(text) < 1000 else 20)])
        rows.append((f"{name} (CPU ms, p50 and p99)", f"{spent['p50']}, {spent['p99']}"))
        figures[name] = spent
    return rows


def _milliseconds(redactor: Redactor, text: str) -> float:
    begun = time.process_time()
    redactor.redact(text)
    return (time.process_time() - begun) * 1000


if __name__ == "__main__":
    main()
