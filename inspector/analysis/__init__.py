"""Pure functions of what was lowered and compiled: tables, graphs, differences."""
