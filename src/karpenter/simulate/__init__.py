"""Whole clusters in virtual time: a scenario in, what happened with the real controllers out."""
