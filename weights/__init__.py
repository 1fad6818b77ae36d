"""The model folders that come with the packages `model` and `server`."""
