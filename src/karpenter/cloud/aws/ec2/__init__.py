"""Calls to AWS: sessions, error classes, rate limits, batching, caches, tags and names."""
