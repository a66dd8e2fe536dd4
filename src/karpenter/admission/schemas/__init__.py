"""Structural schemas of CRDs: pruned, defaulted and validated as an API server does."""
