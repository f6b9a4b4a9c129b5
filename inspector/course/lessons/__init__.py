"""The questions, one module per lesson. JAX and the compiler compute the right answers; none is written down if it can be computed."""
