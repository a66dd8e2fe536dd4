"""Talking to an API server: knows the wire, not the product."""
