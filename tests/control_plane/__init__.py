"""A real Kubernetes control plane, built from source, for tests to compare with."""
