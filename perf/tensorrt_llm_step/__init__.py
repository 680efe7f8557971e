"""The scripted engine behind TensorRT-LLM's tensors. Copied into a model repository and run there by Triton."""
