"""Packing by price: markets of free pods, candidates for a plan, and their cost."""
