# shellcheck shell=sh
# For a tenant's shell or a job's prologue to source, for example as /etc/profile.d/mccs.sh: programs that call NCCL
# then use the daemon of their host. Adjust the paths: the daemon's socket and the libraries' directory.
#
# libmccs-free-hooks.so must be the first preloaded library, so that it sees frees of GPU memory before they happen.
export MCCS_SOCKET=/run/mccs/mccsd.sock
mccs_lib=/opt/mccs/lib
mccs_cuda=
# No GPU is supported yet. This line adds the emulation, which provides CUDA on host memory:
# mccs_cuda=$mccs_lib/emulation/libcudart.so.13:$mccs_lib/emulation/libcuda.so.1:$mccs_lib/emulation/libnvidia-ml.so.1:
export LD_PRELOAD="$mccs_lib/libmccs-free-hooks.so:$mccs_cuda$mccs_lib/libnccl.so.2${LD_PRELOAD:+:$LD_PRELOAD}"
unset mccs_lib mccs_cuda
