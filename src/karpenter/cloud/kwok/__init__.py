"""The simulated provider: a cloud that sells whatever its catalogue lists."""
