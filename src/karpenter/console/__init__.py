"""Terminal input and output of commands: manifests, tables, sentences, help pages."""
