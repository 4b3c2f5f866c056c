"""The kernels of a PTX file, ready to launch on the machine."""
