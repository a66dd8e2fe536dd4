"""Legacy objects to v1 and v1beta1 back and forth, as pure functions."""
