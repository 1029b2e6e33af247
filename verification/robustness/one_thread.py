"""Imported before NumPy by a program that forks: a process that forks must have one thread.

A test does not import it, so that the suite and the processes that it starts run as on a reader's machine.
"""

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[_name] = "1"
