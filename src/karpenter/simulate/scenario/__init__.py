"""Scenarios: their model and schema, and the reader that says what is wrong with one."""
