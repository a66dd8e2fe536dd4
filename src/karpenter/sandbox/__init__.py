"""A small Kubernetes in one process, to try things out on."""
