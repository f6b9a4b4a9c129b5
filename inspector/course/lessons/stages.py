"""Lesson 0: the stages from a Python function to a running program."""

import jax
import jax.numpy as jnp
import numpy as np

from inspector.course.answers import Choice, Number
from inspector.course.question import Mistake, Question
from inspector.lowering.lower import lower

_STAGES = ("trace", "lower", "compile", "run")


def _traces_of_two_calls() -> int:
    traces = 0

    def layer(w: jax.Array, x: jax.Array) -> jax.Array:
        nonlocal traces
        traces += 1
        return jax.nn.relu(x @ w)

    jitted = jax.jit(layer)
    for _ in range(2):
        jitted(np.ones((4, 4), np.float32), np.ones((2, 4), np.float32))
    return traces


def _stage_of_fusions() -> str:
    lowered = lower(lambda x: jnp.exp(x) * 2 + 1, jax.ShapeDtypeStruct((64, 64), jnp.float32))
    texts = {"trace": str(lowered.jaxpr), "lower": lowered.stablehlo, "compile": lowered.compile(target="cpu").hlo}
    return next(stage for stage, text in texts.items() if "fusion" in str(text))


QUESTIONS = (
    Question(
        "jax.jit(layer) is called twice, with arrays of the same shapes and types. How many times does Python run the body of layer?",
        Number(),
        _traces_of_two_calls,
        "Once: the first call traces. The second call finds the compiled program and runs it.",
        "Which stage runs the body of the function, and is it needed again?",
        (
            Mistake(2, "The second call finds the compiled program in JAX's cache and does not run the body."),
            Mistake(0, "JAX needs the body once, to record its operations."),
        ),
    ),
    Question(
        "At which stage do several operations become one fusion, which runs as one kernel?",
        Choice(_STAGES),
        _stage_of_fusions,
        "Compile: XLA fuses operations. Before it, each operation is separate.",
        "Compare the texts of the stages. Which is the first with the word fusion?",
        (
            Mistake("trace", "The trace records the operations of your function, one equation each."),
            Mistake("lower", "Lowering translates each equation to StableHLO. It combines nothing."),
            Mistake("run", "A run executes kernels that the compiler has made."),
        ),
    ),
    Question(
        "HLO has the value bf16[128,512]. How many bytes is it?",
        Number("bytes"),
        lambda: jax.ShapeDtypeStruct((128, 512), jnp.bfloat16).size * jnp.dtype(jnp.bfloat16).itemsize,
        "128 * 512 elements of 2 bytes.",
        "The number in the name of a type counts bits.",
        (
            Mistake(128 * 512, "That is the number of elements. A bf16 has 2 bytes."),
            Mistake(128 * 512 * 16, "That is the number of bits."),
            Mistake(128 * 512 * 4, "That is the size in f32. A bf16 has 16 bits."),
        ),
    ),
)
