"""Observers of a run: they read the store and the cloud, and share no code with what they judge."""
