"""Decisions as records: one call writes the log line and the record, kept in memory and in a file."""
