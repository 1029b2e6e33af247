"""The theorems once more, in Arb balls: exact inputs, and a ball that contains the value of the formula.

Every argument is the rational number that its double is.  A function evaluates its formula at the precision of the
caller (`gpbounds.rigor.at_bits`) and returns a ball, which encloses all roundings by construction; `rigor.enclosed`
raises the precision until the ball is narrow, and `rigor.above` and `rigor.below` give the double next to its end.
Public functions do this for ``rigor="sharp"``.  The formulas are written for readers, without the devices that double
precision needs; none uses code of the fast path, apart from numbers that a bound may choose freely.
"""
