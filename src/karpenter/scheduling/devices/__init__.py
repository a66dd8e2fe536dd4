"""Dynamic resource allocation: which devices the claims of a pod could have, and where."""
