"""The controllers that remove nodes nobody needs, or that others would do better."""
