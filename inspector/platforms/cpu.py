"""CPUs: virtual devices in a process of their own."""

from inspector.platforms.platform import LLVM_IR, CodeFile, Platform

# XLA starts a few threads for each virtual device; more is a typing error, not a machine.
MAX_DEVICES = 1024

CPU = Platform(
    name="cpu",
    kind="cpu",
    lowering="cpu",
    words="the CPU",
    spaces={0: "RAM"},
    back_end="code generation: LLVM",
    code=(*LLVM_IR, CodeFile("assembly", "asm", ".o", "obj-file.")),
    # `.*` would also write what an emitter writes without a name, which corrupts the heap (jaxlib 0.12).
    emitters="^llvm$",
    listed=("1", "2", "4", "8"),
    example="cpu:8",
    offered=("cpu", "cpu:2", "cpu:4", "cpu:8"),
)
