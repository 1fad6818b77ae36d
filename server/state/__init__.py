"""The state that servers share: the setting `--state`, and the connection to Redis or Valkey."""
