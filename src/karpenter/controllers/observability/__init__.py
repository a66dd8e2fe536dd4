"""What operators see of a cluster in metrics and events, read from mirrors when it is asked for."""
