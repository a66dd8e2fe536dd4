"""Volumes: bound, provisioned, attached and protected."""
