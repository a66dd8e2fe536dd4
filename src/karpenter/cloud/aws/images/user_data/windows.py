"""Boot scripts of Windows: a block of PowerShell, the user's lines first."""

from typing import Final

from karpenter.cloud.aws.images.user_data.flags import kubelet_flags
from karpenter.cloud.aws.images.user_data.inputs import BootInputs, UserData

_SCRIPT: Final = r"$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"


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
    lines += [f'& "{_SCRIPT}" {" ".join(arguments)}', "</powershell>"]
    return UserData("\n".join(lines) + "\n")


def _quoted(text: str) -> str:
    """Text quoted for PowerShell, without expansion."""
    return "'" + text.replace("'", "''") + "'"
