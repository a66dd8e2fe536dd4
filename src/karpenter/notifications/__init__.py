"""Notifications: decision records to Slack, webhooks and SNS, never in the way of a decision."""
