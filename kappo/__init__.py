"""kappo: reinforcement-learning post-training of language models at @k.

`import kappo` is light: no torch, no transformers, no Hydra.
"""

__version__ = "0.1.0"
