"""AWS in this process, for sandboxes and tests: moto, with its gaps filled."""
