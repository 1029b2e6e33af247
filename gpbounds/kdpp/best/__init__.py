"""The best of several draws of a k-DPP and the bound that holds for it: ``select(method="best")``.

The proof rests on the draws.  log p(y) does not depend on Z, so the greatest objective has the least divergence, and if
one draw exceeds a level with probability p, all R independent draws exceed it with probability p^R.  Greedy points,
randomly pivoted points and others are compared as well: they can only raise the objective that is kept.
"""
