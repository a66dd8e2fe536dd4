"""The spot policy: how much of a pool or a workload may run on spot, and at what price."""
