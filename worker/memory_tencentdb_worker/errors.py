"""The worker's error tree.

WorkerError
  InvalidInput            400  the caller's request cannot be carried out as it stands
  NotFound                404  an id or name that is not in this scope
  Refused                 409  it cannot be done as things stand
  Busy                    429  all request slots are taken
  StoreError              503  the store cannot do it now; nothing was written
    StoreFull             507  no space left on the device
    StoreCorrupt          503  the database file is damaged; it is left as it is
    SchemaTooNew          exit 3  the database was written by a newer version
  ConfigError             exit 3  a setting with which the worker must not start
  AlreadyRunning          another worker holds this data directory
  LLMError                     a model call failed
    LLMTransient               try again later; `retry_after_seconds` when the endpoint said so
    LLMTerminal                will not get better by itself: key, quota, model name
    LLMContent                 it answered, but not with something usable: refusal, filter, empty, cut off
  EmbeddingError               the embedder failed
    EmbeddingTransient
    EmbeddingTerminal
    EmbeddingRefused           this text (or batch) is refused; others may work
"""

from __future__ import annotations


class WorkerError(Exception):
    """Base of everything this package raises on purpose. `code` is the public, stable name of the problem."""

    code = "error"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class InvalidInput(WorkerError):
    code = "invalid"


class InvalidField(InvalidInput):
    """A field of the right type whose value cannot be used."""

    code = "invalid_fields"

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"these fields cannot be used: {field} ({problem})")
        self.field = field
        self.problem = problem


class NotFound(WorkerError):
    code = "not_found"


class Refused(WorkerError):
    """It cannot be done as things stand; nothing was changed."""

    code = "refused"


class Busy(WorkerError):
    code = "busy"


class StoreError(WorkerError):
    code = "store"


class StoreFull(StoreError):
    code = "disk_full"


class StoreCorrupt(StoreError):
    code = "store_corrupt"


class SchemaTooNew(StoreError):
    code = "schema_too_new"


class ConfigError(WorkerError):
    code = "config"


class AlreadyRunning(WorkerError):
    code = "already_running"


class LLMError(WorkerError):
    code = "llm"


class LLMTransient(LLMError):
    code = "llm_transient"

    def __init__(self, message: str, *, retry_after_seconds: float | None = None, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after_seconds = retry_after_seconds


class LLMTerminal(LLMError):
    code = "llm_terminal"


class LLMContent(LLMError):
    """`raw` is what came back, for the record of what was parked."""

    code = "llm_content"

    def __init__(self, message: str, *, raw: str = "", code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.raw = raw


class EmbeddingError(WorkerError):
    code = "embedding"


class EmbeddingTransient(EmbeddingError):
    code = "embedding_transient"

    def __init__(self, message: str, *, retry_after_seconds: float | None = None, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after_seconds = retry_after_seconds


class EmbeddingTerminal(EmbeddingError):
    code = "embedding_terminal"


class EmbeddingRefused(EmbeddingError):
    code = "embedding_refused"
