"""Rows of the conformance ledger that the checks alone can prove."""

import pytest
import yaml

from karpenter.admission.check import check

WALK_PROVISIONER = """
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: default}
spec:
  requirements:
    - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
  limits: {resources: {cpu: 100}}
  provider:
    subnetSelector: {karpenter.sh/discovery: walk}
    securityGroupSelector: {karpenter.sh/discovery: walk}
  ttlSecondsAfterEmpty: 30
  ttlSecondsUntilExpired: 1800
"""

WALK_APP = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: app, labels: {app.kubernetes.io/name: app}}
spec:
  replicas: 1
  selector: {matchLabels: {app.kubernetes.io/name: app}}
  template:
    metadata: {labels: {app.kubernetes.io/name: app}}
    spec:
      containers:
        - name: app
          image: alpine:latest
          resources: {requests: {cpu: 500m, memory: 512Mi}}
"""


@pytest.mark.row("S3-15")
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(WALK_PROVISIONER, id="the-provisioner-of-the-walk"),
        pytest.param(WALK_APP, id="the-app-of-the-walk"),
    ],
)
def test_the_walk_is_accepted(text: str) -> None:
    checked = check(yaml.safe_load(text))

    assert [] == checked.errors


@pytest.mark.row("S3-15")
def test_the_walk_without_its_selectors_is_refused() -> None:
    provisioner = yaml.safe_load(WALK_PROVISIONER)
    provisioner["spec"]["provider"] = {}

    fields = {error.field for error in check(provisioner).errors}

    assert {"spec.provider.subnetSelector", "spec.provider.securityGroupSelector"} <= fields
