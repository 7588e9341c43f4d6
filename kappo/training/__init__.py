"""Loop, learner, checkpoints."""
