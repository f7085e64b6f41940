"""The configuration: the declaration of every setting, and flags, environment and ini file read into one `Config`."""
