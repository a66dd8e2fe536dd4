"""What the routes ask, and the errors that are answers too; who finds the answers is not their concern."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any, ClassVar, Protocol

from karpenter.dashboard.contract import (
    About,
    Costs,
    Problem,
    Records,
    Refusal,
    WhatIfAnswer,
    WhatIfRequest,
)


class QuestionError(Exception):
    """A question that has no answer, with a sentence for the person who asked.

    * QuestionError
      x BadQuestionError      400: something is wrong with what was asked
      x UnknownObjectError    404: there is no such object
      x TooLargeError         413: more is asked than one question may bring
      x BusyError             429: others were first; ask again after ``retry_after`` seconds
      x NoAnswerError         503: nothing can be planned at the moment
    """

    status: ClassVar[HTTPStatus] = HTTPStatus.BAD_REQUEST

    def __init__(self, text: str, problems: Sequence[Problem] = ()) -> None:
        """Say in one sentence what is wrong; ``problems`` name lines and fields."""
        super().__init__(text)
        self.problems = tuple(problems)

    @property
    def refusal(self) -> Refusal:
        """The body of the answer."""
        return Refusal(error=str(self), problems=list(self.problems))


class BadQuestionError(QuestionError):
    """Something is wrong with what was asked."""


class UnknownObjectError(QuestionError):
    """There is no such object."""

    status = HTTPStatus.NOT_FOUND


class TooLargeError(QuestionError):
    """More is asked than one question may bring."""

    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


class BusyError(QuestionError):
    """Others were first."""

    status = HTTPStatus.TOO_MANY_REQUESTS

    def __init__(self, text: str, *, retry_after: float = 1.0) -> None:
        """Say so, and when to ask again, in seconds."""
        super().__init__(text)
        self.retry_after = retry_after


class NoAnswerError(QuestionError):
    """Nothing can be planned at the moment."""

    status = HTTPStatus.SERVICE_UNAVAILABLE


class Questions(Protocol):
    """What answers. Every method may raise a ``QuestionError``."""

    async def plan(self) -> Mapping[str, Any]:
        """The document of ``plan -o json``, with the fields of ``contract.Answer``."""

    async def explain(self, kind: str, namespace: str, name: str) -> Mapping[str, Any]:
        """The document of ``explain KIND NAME -o json``, with the fields of ``contract.Answer``.

        Args:
            kind: ``pod``, ``node`` or ``nodepool``.
            namespace: of a pod; empty for the others.
            name: of the object.
        """

    async def what_if(self, request: WhatIfRequest) -> WhatIfAnswer:
        """The plan without and with a change; nothing is changed."""

    async def costs(
        self, since: datetime | None, until: datetime | None, by: Sequence[str]
    ) -> Costs:
        """Costs now and over time.

        Args:
            since: where the series begins; None for all that is kept.
            until: where it ends; None for now.
            by: the tables: pool, capacityType, namespace, owner; all of them if none is named.
        """

    async def decisions(
        self,
        *,
        before: str = "",
        limit: int = 50,
        kind: str = "",
        node_pool: str = "",
        text: str = "",
    ) -> Records:
        """Decision records, the newest first.

        Args:
            before: the id that the page before ended with.
            limit: how many at most.
            kind: of the records; empty for all.
            node_pool: one that they are about; empty for all.
            text: what their sentence or objects contain, in any case.
        """

    async def about(self) -> About:
        """What answers; the server itself fills in ``history`` and ``clients``."""
