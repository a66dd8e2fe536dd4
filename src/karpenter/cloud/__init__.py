"""Clouds: the vocabulary every provider shares, and the providers themselves."""
