"""The model repository: the tensor contract, each stage's config.pbtxt, and `assemble`, which writes it all."""
