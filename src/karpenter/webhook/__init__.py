"""Webhooks for the API server: old versions converted, alpha kinds admitted, certificates kept."""
