"""A scheduler that places pods the way kube-scheduler does.

It shares no decision with the product: what the two agree on, they agree on independently.
"""
