"""The cluster's own controllers and what they run on."""
