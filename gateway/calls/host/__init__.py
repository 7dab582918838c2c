"""What host calls ask for and how much they get: the decisions of the connectors in `gateway/runtime/host`."""
