"""Objects for tests, by subject; tests import them from ``builders``."""
