"""Scripts that make the pictures and the measured tables of these pages while they are built."""
