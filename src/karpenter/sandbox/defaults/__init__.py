"""What Kubernetes' own kinds are completed with when a client leaves it out."""
