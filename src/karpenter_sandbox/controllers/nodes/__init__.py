"""Nodes: their conditions and taints, and what becomes of the pods on them."""
