"""Placing pods on machines and planned claims, and every check that may refuse it."""
