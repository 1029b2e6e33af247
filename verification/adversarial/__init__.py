"""Hard instances for every bound given rows, and truths in balls of 256 bits and more.

`instances` draws them, `truths` and `laws` compute what is bounded, `bounds`, `draws`, `certificates` and `factors`
call the functions, `attacks` lists them, and ``python verification/adversarial/run.py --cases 1000000`` counts the
intervals that exclude their truth.
"""
