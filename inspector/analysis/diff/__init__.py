"""Differences between modules: instruction matching, changes by kind, aligned texts and fingerprints."""
