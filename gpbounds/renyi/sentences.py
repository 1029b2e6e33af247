"""Sentences that gaps share."""

GAP = "D_α[q*‖p]"
BEST = "q is the best approximation q* of order α, and the divergence is D_α[q*‖p(f, U | y)]."
ANY_Y = "y may be any vector, chosen in any way."
