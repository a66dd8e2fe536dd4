"""The dashboard's HTTP server: connections, routes and the stream."""
