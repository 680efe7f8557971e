"""The gateway: OpenAI's HTTP API in front of the ensemble. Runs in processes of its own, as a client of Triton."""
