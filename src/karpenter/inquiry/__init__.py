"""A cluster, from files or live, and what ``plan`` and ``explain`` ask the planners about it."""
