"""The compiled code: C++ sources, how they are built or found ready, how tensors get to them.

One library has the attention, the energies of additive attention, and the loops of recurrent
models (``*.cpp``, each with the headers that do the work). It knows no torch, so one file serves
every version. A wheel for Linux x86-64 carries it; elsewhere ``build.py`` compiles it at first use.
Where there is neither, those who ask compute the same in plain PyTorch.
"""
