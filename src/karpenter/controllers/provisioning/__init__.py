"""Provisioning: NodeClaims for pending pods."""
