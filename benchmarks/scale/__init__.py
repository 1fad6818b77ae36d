"""The API process alone: a worker that answers at once, so that the processor time of a request can
be seen."""
