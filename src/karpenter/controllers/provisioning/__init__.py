"""Pods that wait become nodes that are on their way."""
