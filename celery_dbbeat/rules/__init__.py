"""The decisions, pure: triggers, schedules, ticks and the plan. No I/O, no clock."""
