"""Objectives of training: rows × law × goal, as functions of a point."""
