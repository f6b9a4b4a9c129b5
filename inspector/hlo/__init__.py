"""The language that is inspected: modules, instructions, shapes, replica groups, source locations."""
