"""Packing that looks at prices: markets of free pods, candidates for a plan, and their cost."""
