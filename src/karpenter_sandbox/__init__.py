"""The sandbox: a small Kubernetes cluster in one process, for trials and tests."""
