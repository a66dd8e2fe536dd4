"""Boot scripts of Amazon Linux 2 (a shell script) and 2023 (a configuration for nodeadm)."""

from typing import Any, Final

import yaml

from karpenter.cloud.aws.images.user_data.flags import kubelet_flags, label_flag
from karpenter.cloud.aws.images.user_data.inputs import BootInputs, UserData
from karpenter.cloud.aws.images.user_data.mime import (
    NODE_CONFIG,
    SHELL_SCRIPT,
    Part,
    archive,
    is_archive,
    parts_of,
)
from karpenter.cloud.provider import NodeClassNotReadyError

_PREAMBLE: Final = (
    "#!/bin/bash -xe",
    "exec > >(tee /var/log/user-data.log | logger -t user-data -s 2>/dev/console) 2>&1",
)
_GENERATED: Final = "# Written by Karpenter"


def al2(inputs: BootInputs) -> UserData:
    """The boot script of Amazon Linux 2."""
    parts = _user_parts(inputs.user_data, plain_type=lambda _: SHELL_SCRIPT)
    parts.append(Part.of(SHELL_SCRIPT, _bootstrap(inputs)))
    return UserData(archive(parts))


def al2023(inputs: BootInputs) -> UserData:
    """The boot configuration of Amazon Linux 2023.

    Raises:
        NodeClassNotReadyError: the addresses of services, which it must hold, are not known yet.
    """
    if not inputs.service_cidr:
        raise NodeClassNotReadyError(
            "the service network of the cluster is not known yet, and nodes of family AL2023"
            " cannot start without it"
        )
    parts = _user_parts(inputs.user_data, plain_type=_type_of)
    parts.append(Part.of(NODE_CONFIG, _node_config(inputs)))
    return UserData(archive(parts))


def _user_parts(text: str, *, plain_type: Any) -> list[Part]:
    if not text.strip():
        return []
    return parts_of(text) if is_archive(text) else [Part.of(plain_type(text), text)]


def _type_of(text: str) -> str:
    """The content type of text that is not MIME multipart: a configuration or a script."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError:
        return SHELL_SCRIPT
    return NODE_CONFIG if isinstance(document, dict) else SHELL_SCRIPT


def _bootstrap(inputs: BootInputs) -> str:
    arguments = [f"/etc/eks/bootstrap.sh {_quoted(inputs.cluster_name)}"]
    arguments.append(f"--apiserver-endpoint {_quoted(inputs.endpoint)}")
    if inputs.ca_bundle:
        arguments.append(f"--b64-cluster-ca {_quoted(inputs.ca_bundle)}")
    if inputs.is_ipv6:
        arguments.append("--ip-family ipv6")
    if inputs.dns_addresses:
        arguments.append(f"--dns-cluster-ip {_quoted(inputs.dns_addresses[0])}")
    if inputs.kubelet.get("maxPods") is not None:
        arguments.append("--use-max-pods false")
    flags = kubelet_flags(inputs)
    if flags:
        arguments.append(f"--kubelet-extra-args {_quoted(flags)}")
    if inputs.is_raid0:
        arguments.append("--local-disks raid0")
    return "\n".join((*_PREAMBLE, " \\\n".join(arguments)))


def _node_config(inputs: BootInputs) -> str:
    config = dict(inputs.kubelet)
    if inputs.dns_addresses:
        config["clusterDNS"] = list(inputs.dns_addresses)
    if inputs.taints:
        config["registerWithTaints"] = [
            {"key": taint.key, "effect": taint.effect}
            | ({"value": taint.value} if taint.value else {})
            for taint in inputs.taints
        ]
    spec: dict[str, Any] = {
        "cluster": {
            "name": inputs.cluster_name,
            "apiServerEndpoint": inputs.endpoint,
            "certificateAuthority": inputs.ca_bundle,
            "cidr": inputs.service_cidr,
        },
        "kubelet": {"config": config},
    }
    if inputs.labels:
        spec["kubelet"]["flags"] = [label_flag(inputs.labels)]
    if inputs.is_raid0:
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    document = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}
    return f"{_GENERATED}\n{yaml.safe_dump(_plain(document), width=2**31)}"


def _plain(value: Any) -> Any:
    """The value as plain dicts and lists: the YAML writer refuses subclasses of dict."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def _quoted(text: str) -> str:
    """Text quoted for the shell."""
    return "'" + text.replace("'", "'\\''") + "'"
