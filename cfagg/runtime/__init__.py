"""Running long jobs: staging beside the target, publishing that survives kills and power losses, and locks."""
