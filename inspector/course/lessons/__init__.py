"""The questions, a module a lesson. What is right is asked of JAX and the compiler, where it can be; no answer is written down."""
