"""The cluster's own controllers."""
