"""What can be wrong with a request, by whose fault; the faces turn these into a status, an error result or a line."""

from __future__ import annotations

from schemas.errors import BrainError


class RequestProblem(BrainError):
    """The caller can do something about it. ``code`` is stable."""

    code = "bad_request"

    def __init__(self, message: str, *, hint: str | None = None, code: str | None = None) -> None:
        super().__init__(message, hint=hint)
        if code is not None:
            self.code = code


class NotFound(RequestProblem):
    """There is no such thing."""

    code = "not_found"


class Gone(RequestProblem):
    """It was forgotten."""

    code = "forgotten"


class Conflict(RequestProblem):
    """The request id was used for something else."""

    code = "request_id_reused"


class Unprocessable(RequestProblem):
    """It is well formed and says something that cannot be."""

    code = "contract_violation"
