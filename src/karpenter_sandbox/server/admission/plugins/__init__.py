"""Admission plugins: those that depend on other objects or on the cluster's configuration."""
