"""The load generator: any endpoint, closed and open loops, every request's timestamps kept. Runs on the load host."""
