"""The figures of all chips that have some."""

from inspector.platforms import chips

PEAKS = {chip.name: chip.peak for chip in chips() if chip.peak is not None}
