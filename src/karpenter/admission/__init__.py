"""What the API server and the controllers check before an object counts."""
