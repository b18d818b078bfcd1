"""What windows, watermarks, emission, aggregates and Z-sets mean: plain Python, no I/O, no clock."""
