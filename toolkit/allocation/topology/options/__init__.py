"""Options of the Topology Manager, a module each: how its value is read, what it refuses, what it changes."""
