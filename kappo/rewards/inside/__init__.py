"""What runs inside the sandbox. Standard library only: `backends.py` hands the sources to a bare Python."""
