"""The boot script of an instance, in the language of its family."""

from collections.abc import Callable, Mapping
from typing import Final

from karpenter.cloud.aws.images.families import Family
from karpenter.cloud.aws.images.user_data.amazon_linux import al2, al2023
from karpenter.cloud.aws.images.user_data.bottlerocket import bottlerocket
from karpenter.cloud.aws.images.user_data.flags import kubelet_flags
from karpenter.cloud.aws.images.user_data.inputs import BootInputs, UserData

_WINDOWS_SCRIPT: Final = r"$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"

LONGEST: Final = 16384  # EC2's limit, in bytes
_RENDERERS: Final[Mapping[str, Callable[[BootInputs], UserData]]] = {
    "AL2": al2,
    "AL2023": al2023,
    "Bottlerocket": bottlerocket,
}


def render(family: Family, inputs: BootInputs) -> UserData:
    """Write a boot script; for the Custom family, the user's text unchanged.

    Raises:
        UserDataError: what the user wrote cannot be merged with ours.
        NodeClassNotReadyError: something the script must hold is not known yet.
    """
    if family.is_windows:
        return windows(inputs)
    renderer = _RENDERERS.get(family.name)
    return UserData(inputs.user_data) if renderer is None else renderer(inputs)


def windows(inputs: BootInputs) -> UserData:
    """The boot script of Windows."""
    arguments = [f"-EKSClusterName {_quoted(inputs.cluster_name)}"]
    arguments.append(f"-APIServerEndpoint {_quoted(inputs.endpoint)}")
    if inputs.ca_bundle:
        arguments.append(f"-Base64ClusterCA {_quoted(inputs.ca_bundle)}")
    flags = kubelet_flags(inputs)
    if flags:
        arguments.append(f"-KubeletExtraArgs {_quoted(flags)}")
    if inputs.dns_addresses:
        arguments.append(f"-DNSClusterIP {_quoted(inputs.dns_addresses[0])}")
    lines = ["<powershell>"]
    if inputs.user_data:
        lines.append(inputs.user_data.rstrip("\n"))
    lines += [f'& "{_WINDOWS_SCRIPT}" {" ".join(arguments)}', "</powershell>"]
    return UserData("\n".join(lines) + "\n")


def _quoted(text: str) -> str:
    """Text quoted for PowerShell, without expansion."""
    return "'" + text.replace("'", "''") + "'"
