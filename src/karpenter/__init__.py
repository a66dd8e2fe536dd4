"""Karpenter in Python: just-in-time nodes for any Kubernetes cluster."""

__version__ = "0.1.0"
