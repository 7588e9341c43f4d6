"""The coefficients in other people's trainers: one file each."""
