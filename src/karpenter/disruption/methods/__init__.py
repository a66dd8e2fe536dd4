"""The methods of disruption: emptiness, drift, consolidation, repair, and forced removal."""
