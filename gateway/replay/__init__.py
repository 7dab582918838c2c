"""A recording in the place of peers, of the core, or of both. Pure: what waits is in `runtime`."""
