"""Reads, prints and converts StableHLO and HLO modules with jaxlib; untrusted ones in a separate process."""
