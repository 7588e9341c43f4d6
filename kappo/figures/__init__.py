"""Tables and figures: one function each; they read tables, never models."""
