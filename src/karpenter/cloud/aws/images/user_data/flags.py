"""The kubelet's settings as command-line flags, for families whose boot script takes them so."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from karpenter.cloud.aws.images.user_data.inputs import BootInputs
from karpenter.model.taints import format_taint

# Setting -> flag, and what stands between the keys and values of a mapping
_MAPPINGS: Final = (
    ("systemReserved", "system-reserved", "="),
    ("kubeReserved", "kube-reserved", "="),
    ("evictionHard", "eviction-hard", "<"),
    ("evictionSoft", "eviction-soft", "<"),
    ("evictionSoftGracePeriod", "eviction-soft-grace-period", "="),
)
_AMOUNTS: Final = (
    ("evictionMaxPodGracePeriod", "eviction-max-pod-grace-period"),
    ("imageGCHighThresholdPercent", "image-gc-high-threshold"),
    ("imageGCLowThresholdPercent", "image-gc-low-threshold"),
)


def kubelet_flags(inputs: BootInputs) -> str:
    """Every setting of the kubelet on one line."""
    return " ".join(_flags(inputs))


def label_flag(held: Mapping[str, str]) -> str:
    """The flag that gives a node its labels."""
    return f'--node-labels="{_joined(held, "=")}"'


def _flags(inputs: BootInputs) -> Iterator[str]:
    kubelet = inputs.kubelet
    if inputs.labels:
        yield label_flag(inputs.labels)
    if inputs.taints:
        taints = ",".join(format_taint(taint) for taint in inputs.taints)
        yield f'--register-with-taints="{taints}"'
    for setting, flag in (("maxPods", "max-pods"), ("podsPerCore", "pods-per-core")):
        if kubelet.get(setting) is not None:
            yield f"--{flag}={kubelet[setting]}"
    for setting, flag, separator in _MAPPINGS:
        if kubelet.get(setting):
            yield f'--{flag}="{_joined(kubelet[setting], separator)}"'
    for setting, flag in _AMOUNTS:
        if kubelet.get(setting) is not None:
            yield f"--{flag}={kubelet[setting]}"
    if kubelet.get("cpuCFSQuota") is not None:
        yield f"--cpu-cfs-quota={str(kubelet['cpuCFSQuota']).lower()}"


def _joined(values: Mapping[str, Any], separator: str) -> str:
    return ",".join(f"{key}{separator}{values[key]}" for key in sorted(values))
