"""The ``karpenter`` command line."""
