"""What speaks against an object of Kubernetes' own kinds, in the words of an API server."""
