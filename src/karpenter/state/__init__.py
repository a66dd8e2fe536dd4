"""What the cluster looks like, as values that planners can share."""
