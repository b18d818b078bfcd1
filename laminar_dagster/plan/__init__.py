"""Decides: turns a resolved query into one frozen Plan that explain, check, fingerprint and run all use."""
