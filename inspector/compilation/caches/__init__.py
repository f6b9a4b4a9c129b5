"""Caches of compiled programs and of their parsed modules, in memory and on disk."""
