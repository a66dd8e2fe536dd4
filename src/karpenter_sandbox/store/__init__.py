"""Objects as bytes, with resource versions, watch history and an optional journal."""
