"""Detectors of communication and copies that another sharding or order saves."""
