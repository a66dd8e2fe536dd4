"""Interruption notices and health events of AWS, and the deletion of the claims they affect."""
