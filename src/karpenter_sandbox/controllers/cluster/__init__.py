"""Housekeeping of the cluster: namespaces, garbage collection, accounts, events, disruption budgets."""
