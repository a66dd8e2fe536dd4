"""The API server: decodes requests, executes verbs, encodes answers, over HTTP or in memory."""
