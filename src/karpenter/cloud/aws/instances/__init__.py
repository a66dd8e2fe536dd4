"""Existing instances: listing, description, tagging, drift, termination."""
