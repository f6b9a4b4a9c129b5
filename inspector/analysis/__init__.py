"""Pure functions of lowered and compiled programs: tables, graphs and differences."""
