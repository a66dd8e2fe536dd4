"""Metrics and events about the cluster, computed from mirrors on each scrape."""
