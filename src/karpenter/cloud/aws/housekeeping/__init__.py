"""What the provider does by itself, now and then, so that nothing is forgotten or left behind."""
