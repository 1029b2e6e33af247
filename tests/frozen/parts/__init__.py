"""What is frozen, part by part: ``run(store, writing)`` gives {id: {"rule": ..., "value": ...}}."""
