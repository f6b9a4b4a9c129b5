"""Explorables of the course: what they show, and the answers of JAX and XLA to their readers' questions."""
