"""The status of NodePools: hash, counters, readiness, validity and registration health."""
