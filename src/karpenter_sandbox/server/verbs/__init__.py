"""What clients can do with resources: read, watch, write, remove, and the special requests."""
