"""Explorers without a notebook kernel: stored notebook output, HTML pages, reports, and static fallbacks."""
