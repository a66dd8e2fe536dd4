"""The ``karpenter sandbox`` command: the cluster, its autoscaler, and their display."""
