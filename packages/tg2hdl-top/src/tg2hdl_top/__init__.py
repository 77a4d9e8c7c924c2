"""Many kernels to one design: shared buffers, sequencing and host ports."""
