"""CPUs: virtual devices in a separate process."""

from inspector.platforms.platform import LLVM_IR, CodeFile, Platform

# XLA starts a few threads for each virtual device. A larger number is a typing error.
MAX_DEVICES = 1024

CPU = Platform(
    name="cpu",
    kind="cpu",
    lowering="cpu",
    words="the CPU",
    spaces={0: "RAM"},
    back_end="code generation: LLVM",
    code=(*LLVM_IR, CodeFile("assembly", "asm", ".o", "obj-file.")),
    # `.*` would also match an unnamed dump of an emitter, which corrupts the heap (jaxlib 0.12).
    emitters="^llvm$",
    listed=("1", "2", "4", "8"),
    example="cpu:8",
    offered=("cpu", "cpu:2", "cpu:4", "cpu:8"),
)
