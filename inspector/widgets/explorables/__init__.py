"""Page elements of the course that readers operate: a player of collectives, and questions to explore.

Each is one message with everything that the page computes with, and requests for what needs JAX. The browser's half is
`frontend/src/explorables/`. The functions in `inspector/api/explorables/` create them, and answer the requests.
"""
