"""The dashboard: a page that shows a cluster as it changes, and answers why; it changes nothing."""
