"""Conformance cases: files that say what must hold, run the same way on the reference and on every engine."""
