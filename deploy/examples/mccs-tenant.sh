# shellcheck shell=sh
# For a tenant's shell or a job's prologue to source, for example as /etc/profile.d/mccs.sh: programs that call NCCL
# then use the daemon of their host. Adjust the two paths.
#
# libmccs-free-hooks.so must be the first preloaded library, so that it sees frees of GPU memory before they happen.
export MCCS_SOCKET=/run/mccs/mccsd.sock
export LD_PRELOAD="/usr/local/lib/libmccs-free-hooks.so:/usr/local/lib/libnccl.so.2${LD_PRELOAD:+:$LD_PRELOAD}"
