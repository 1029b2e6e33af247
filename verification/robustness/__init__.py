"""Processes that are killed, and files that are damaged or hostile."""

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):  # a process that forks must have one thread
    os.environ[_name] = "1"
