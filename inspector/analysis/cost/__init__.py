"""Cost and estimated time: rooflines, schedules, and the attribution of cost to lines, scopes and phases."""
