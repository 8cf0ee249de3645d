"""How long work is done: staging beside the target, publishing that survives kills and power losses, locks."""
