"""A namespace that nobody has is pointed out when a recording of it begins, not after a day of nothing."""

from typing import Any, cast

import pytest

from karpenter.api.cluster import Namespace
from karpenter.kube.errors import ForbiddenError, NotFoundError
from karpenter.kube.read_only import ReadOnlyClient
from karpenter.simulate.record.session import _point_out_missing

MISSING = "warning: there is no namespace shpo: nothing of it is recorded until there is one\n"


class Cluster:
    """A cluster that answers every question for an object alike."""

    def __init__(self, answer: Exception | Namespace) -> None:
        self._answer = answer

    async def get(self, kind: type[Namespace], name: str) -> Any:
        assert (Namespace, "shpo") == (kind, name)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param(Namespace(), "", id="it is there"),
        pytest.param(NotFoundError(404, "no such namespace"), MISSING, id="it is not"),
        pytest.param(ForbiddenError(403, "not for you"), "", id="nobody may tell"),
    ],
)
async def test_a_namespace_that_there_is_not_is_pointed_out(
    answer: Exception | Namespace, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await _point_out_missing(cast(ReadOnlyClient, Cluster(answer)), "shpo")

    assert said == capsys.readouterr().err
