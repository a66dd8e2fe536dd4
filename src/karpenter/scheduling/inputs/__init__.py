"""The inputs of a pass: pending pods, usable pools, and what the cluster adds to both."""
