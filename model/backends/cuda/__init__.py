"""The CUDA backend: decode steps of fixed shape as CUDA graphs with Triton kernels. Imports only
`model`."""
