"""Validation of Kubernetes' own kinds, with the API server's messages."""
