"""Decisions beside Karpenter's own on random problems."""
