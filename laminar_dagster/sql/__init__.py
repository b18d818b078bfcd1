"""Reads: SQL text to statements, names and types resolved against the sources' schemas."""
