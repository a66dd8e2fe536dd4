"""The methods of disruption: emptiness, drift, consolidation, repair, and what ignores budgets."""
