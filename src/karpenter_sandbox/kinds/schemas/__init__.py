"""Structural facts of the built-in kinds, as data."""
