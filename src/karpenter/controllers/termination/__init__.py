"""Termination of nodes and claims: drain, then detach volumes, then terminate the instance."""
