"""How textbooks do a collective: block by block, step by step, with what that loads."""
