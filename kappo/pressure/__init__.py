"""Pressures: one file each."""
