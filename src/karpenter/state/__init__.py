"""The state of the cluster, as immutable values that planners can share."""
