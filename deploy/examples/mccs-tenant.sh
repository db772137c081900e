# shellcheck shell=sh
# What a tenant's shell or a job's prologue sources, such as /etc/profile.d/mccs.sh: programs that call NCCL then call
# the daemon of their host. Adjust the two paths.
#
# libmccs-frees.so has to be the first of all preloaded libraries: it sees frees of GPU memory before they happen.
export MCCS_SOCKET=/run/mccs/mccsd.sock
export LD_PRELOAD="/usr/local/lib/libmccs-frees.so:/usr/local/lib/libnccl.so.2${LD_PRELOAD:+:$LD_PRELOAD}"
