"""Launches NodeClaims: filters, launch templates, fleet requests, unavailable offerings."""
