"""Simulated kubelets: nodes become ready, leases are renewed, pods run."""
