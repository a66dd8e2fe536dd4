"""Services: their Endpoints and EndpointSlices."""
