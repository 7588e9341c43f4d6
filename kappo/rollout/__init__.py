"""Engines that sample completions and score them."""
