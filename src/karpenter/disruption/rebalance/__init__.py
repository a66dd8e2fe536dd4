"""Rebalancing: many nodes into several, when that costs less."""
