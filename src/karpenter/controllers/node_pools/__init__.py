"""What NodePools say about themselves: hash, counters, readiness, validity and health."""
