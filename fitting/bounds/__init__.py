"""PAC-Bayes bounds as training objectives: B of Theorem 1 as a function of hyperparameters, noise, Z and free q(u)."""

from fitting.bounds.free import FreeBound, free_bound
from fitting.bounds.problem import RiskBound, risk_bound
from fitting.bounds.target import Target, Terms

__all__ = ["FreeBound", "RiskBound", "Target", "Terms", "free_bound", "risk_bound"]
