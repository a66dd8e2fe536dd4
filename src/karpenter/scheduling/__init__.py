"""Where pods could go: the pure solver."""
