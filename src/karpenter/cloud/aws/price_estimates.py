"""Rough prices for when AWS cannot be asked, as in a network without a way out.

These are **estimates**: dollars per hour of Linux on demand in us-east-1, per vCPU (or per GiB, for
the burstable families, whose sizes differ in memory; with GPUs and accelerators, per device as
well), roughly as in AWS's public price list. They serve to compare types with one another. Prices
that AWS itself tells replace them one by one.
"""

from typing import Final

from karpenter.cloud.aws.facts import TypeFacts
from karpenter.cloud.aws.names import family_and_size

_PER_GIB: Final = {"t2": 0.0116, "t3": 0.0104, "t3a": 0.0094, "t4g": 0.0084}
_PER_VCPU: Final = {
    "a1": 0.0255,
    "m4": 0.05,
    "m5": 0.048,
    "m5a": 0.043,
    "m5ad": 0.0515,
    "m5d": 0.0565,
    "m5n": 0.0595,
    "m5dn": 0.068,
    "m5zn": 0.0826,
    "m6a": 0.0432,
    "m6g": 0.0385,
    "m6gd": 0.0452,
    "m6i": 0.048,
    "m6id": 0.0593,
    "m6in": 0.0696,
    "m6idn": 0.0796,
    "m7a": 0.058,
    "m7g": 0.0408,
    "m7gd": 0.0534,
    "m7i": 0.0504,
    "m7i-flex": 0.0479,
    "m8g": 0.0449,
    "c4": 0.05,
    "c5": 0.0425,
    "c5a": 0.0385,
    "c5ad": 0.043,
    "c5d": 0.048,
    "c5n": 0.054,
    "c6a": 0.0383,
    "c6g": 0.034,
    "c6gd": 0.0384,
    "c6gn": 0.0432,
    "c6i": 0.0425,
    "c6id": 0.0504,
    "c6in": 0.0567,
    "c7a": 0.0513,
    "c7g": 0.0363,
    "c7gd": 0.0454,
    "c7gn": 0.0624,
    "c7i": 0.0446,
    "c7i-flex": 0.0424,
    "c8g": 0.0399,
    "r4": 0.0665,
    "r5": 0.063,
    "r5a": 0.0565,
    "r5ad": 0.0655,
    "r5b": 0.0745,
    "r5d": 0.072,
    "r5n": 0.0745,
    "r5dn": 0.0835,
    "r6a": 0.0567,
    "r6g": 0.0504,
    "r6gd": 0.0576,
    "r6i": 0.063,
    "r6id": 0.0756,
    "r6in": 0.0872,
    "r6idn": 0.0977,
    "r7a": 0.0761,
    "r7g": 0.0536,
    "r7gd": 0.068,
    "r7i": 0.0662,
    "r7iz": 0.093,
    "r8g": 0.0589,
    "x1": 0.1042,
    "x1e": 0.2085,
    "x2gd": 0.0835,
    "x2idn": 0.1042,
    "x2iedn": 0.2084,
    "i3": 0.078,
    "i3en": 0.113,
    "i4g": 0.0772,
    "i4i": 0.0858,
    "im4gn": 0.091,
    "d2": 0.1725,
    "d3": 0.1248,
    "d3en": 0.1315,
    "h1": 0.0585,
    "z1d": 0.093,
    "p3": 0.3825,
    "p3dn": 0.3252,
    "p4d": 0.3414,
    "p4de": 0.4267,
    "p5": 0.5121,
    "trn1": 0.168,
    "dl1": 0.1366,
}
# Sizes of these differ in vCPUs for one device: dollars per vCPU, and per GPU or accelerator
_PER_VCPU_AND_DEVICE: Final = {
    "g4ad": (0.0407, 0.2159),
    "g4dn": (0.0565, 0.3),
    "g5": (0.0515, 0.8),
    "g5g": (0.034, 0.284),
    "g6": (0.0432, 0.632),
    "g6e": (0.0953, 1.4799),
    "inf1": (0.0335, 0.094),
    "inf2": (0.035, 0.62),
}
# For families that are not listed: dollars per vCPU and per device, and per GiB of memory
_UNLISTED: Final = (0.03, 1.0)
_PER_UNLISTED_GIB: Final = 0.005
_MIB_PER_GIB: Final = 1024


def estimated_price(facts: TypeFacts) -> float:
    """A rough price of an hour of a type."""
    family, _ = family_and_size(facts.name)
    gib = facts.memory_mib / _MIB_PER_GIB
    if family in _PER_GIB:
        return round(_PER_GIB[family] * gib, 6)
    if family in _PER_VCPU:
        return round(_PER_VCPU[family] * facts.vcpus, 6)
    devices = sum(gpu.count for gpu in facts.gpus) + sum(each.count for each in facts.neurons)
    per_vcpu, per_device = _PER_VCPU_AND_DEVICE.get(family, _UNLISTED)
    per_gib = 0.0 if family in _PER_VCPU_AND_DEVICE else _PER_UNLISTED_GIB
    return round(per_vcpu * facts.vcpus + per_device * devices + per_gib * gib, 6)
