"""Prices: from AWS, from overlays, and estimates where neither is known."""
