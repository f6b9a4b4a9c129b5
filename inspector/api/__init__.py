"""The public entry points that combine the other packages: `explore`, `load`, `sweep`, `scan`, `cache_status`, magics."""
