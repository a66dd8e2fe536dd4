"""Periodic work of the provider: refreshing prices and types, tagging, garbage collection."""
