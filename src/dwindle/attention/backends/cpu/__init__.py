"""The C++ kernel for the CPU: its source, its build on first use, and the ``torch.library`` operator."""
