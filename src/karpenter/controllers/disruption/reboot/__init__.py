"""Rebooting a machine in place, as node repair requests it."""
