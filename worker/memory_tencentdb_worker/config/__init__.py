"""Configuration: one model (`model`), read from defaults, file, environment and command line (`load`)."""
