"""Days of abuse in minutes: overload, killed workers, and a stop in the middle of the traffic."""
