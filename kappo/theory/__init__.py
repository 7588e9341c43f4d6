"""The papers' mathematics: numpy and scipy only, float64, no I/O."""
