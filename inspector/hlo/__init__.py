"""The HLO language: modules, instructions, shapes, replica groups, source locations."""
