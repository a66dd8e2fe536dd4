"""What reviews of both kinds have in common: an envelope that must be readable to be answered.

The API server sends one ``*Review`` object and expects it back with a ``response`` that repeats the
``uid`` of its ``request``. Without these there is nothing to answer with, so the request itself is
refused; anything else that is wrong becomes part of the answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from karpenter.api.meta import JsonObject


class ReviewError(ValueError):
    """A body that is no review of the kind that was asked for; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A kind of review."""

    api_version: str
    kind: str

    def request_in(self, review: object) -> Mapping[str, Any]:
        """The request of a review, which has a ``uid``.

        Raises:
            ReviewError: it is another kind of object, or lacks what an answer must repeat.
        """
        if not isinstance(review, Mapping):
            raise ReviewError(f"the body is no {self.kind} but {_json_type(review)}")
        found = (review.get("apiVersion"), review.get("kind"))
        if found != (self.api_version, self.kind):
            raise ReviewError(
                f"the body is {found[0]!r} {found[1]!r} and not {self.api_version!r} {self.kind!r}"
            )
        request = review.get("request")
        if not isinstance(request, Mapping):
            raise ReviewError(f"request: {self.kind} has none, or it is no object")
        uid = request.get("uid")
        if not isinstance(uid, str) or not uid:
            raise ReviewError(f"request.uid: {self.kind} has none, so it cannot be answered")
        return request

    def answer(self, request: Mapping[str, Any], response: Mapping[str, Any]) -> JsonObject:
        """The review that answers a request."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "response": {"uid": request["uid"], **response},
        }


def _json_type(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, str):
        return "a string"
    return "a list" if isinstance(value, list) else "a number"
