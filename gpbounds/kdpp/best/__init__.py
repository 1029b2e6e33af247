"""The best of several draws of a k-DPP, with what is proved of it: ``select(method="best")``.

The draws carry the proof: log p(y) does not depend on Z, so the greatest objective is the least divergence, and R
independent draws miss a level together with probability p^R where one misses it with probability p.  Greedy points,
randomly pivoted ones and others are candidates, too: they can only raise the objective that is kept.
"""
