"""A scheduler that places pods the way kube-scheduler does.

It shares no placement code with Karpenter's solver, so that each can be tested against the other.
"""
