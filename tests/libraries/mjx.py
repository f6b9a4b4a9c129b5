"""MuJoCo XLA: a physics engine whose model and data are pytrees with many static parts."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mujoco
from mujoco import mjx

from tests.libraries.program import Program

PENDULUM = """
<mujoco>
  <option timestep="0.01" iterations="1" ls_iterations="2"/>
  <worldbody>
    <body pos="0 0 1">
      <joint type="hinge" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.05" contype="0" conaffinity="0"/>
    </body>
  </worldbody>
</mujoco>
"""
MODEL = mjx.put_model(mujoco.MjModel.from_xml_string(PENDULUM))
DATA = mjx.make_data(MODEL)


def reward(model: mjx.Model, data: mjx.Data, force: jax.Array) -> jax.Array:
    data = mjx.step(model, data.replace(qfrc_applied=force))
    return jnp.sum(jnp.cos(data.qpos) - 0.1 * data.qvel**2)


PROGRAMS = (
    Program("a step", jax.jit(mjx.step), (MODEL, DATA), line=""),
    Program("a reward", reward, (MODEL, DATA, jnp.ones(1)), line="return jnp.sum(jnp.cos(data.qpos)"),
)
