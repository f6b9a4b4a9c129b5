"""The file format of a saved `Compiled`: a zip archive with a manifest, safe to open from any source."""
