"""The papers' theory figures: functions of the mathematics alone, of no model and no run."""
