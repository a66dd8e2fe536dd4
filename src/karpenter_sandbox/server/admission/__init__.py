"""Admission: defaults and validation before an object is stored."""
