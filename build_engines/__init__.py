"""Plans and builds TensorRT-LLM engines. Standard library only: it runs in NVIDIA's container as it is."""
