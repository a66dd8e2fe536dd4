"""The controllers that remove nodes that are not needed, or that should be replaced."""
