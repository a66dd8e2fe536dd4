"""What looks beyond an object itself: other objects it refers to, and habits of the cluster."""
