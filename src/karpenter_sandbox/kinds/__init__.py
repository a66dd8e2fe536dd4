"""Per-kind behaviour of the API server: schemas, defaults, validation, conversion, patches."""
