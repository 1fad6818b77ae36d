"""Days of abuse in minutes: overload, killed workers, a stop in the middle of the traffic, large documents."""
