/* The options that MCCS understands in a ncclCollConfig_t (NCCL 2.32 and later), for programs that
 * want to say more about a call. Every other NCCL library ignores them, so that a program that uses
 * them runs anywhere. Plain C; needs no other header.
 *
 *   ncclConfigExt_t deadline = {NULL, {MCCS_NCCL_VENDOR_ID, MCCS_OPTION_DEADLINE_US}, {.i = 2000}};
 *   ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
 *   config.ext = &deadline;
 *   ncclAllReduceConfig(send, recv, count, type, op, comm, stream, &config);
 *
 * All values are integers (val.i). A value out of its range, an option that this release does not
 * know and an option that is given twice are refused with ncclInvalidArgument. What a call asks for
 * is recorded with it and shown to the operator (mccsctl describe communicator). */
#ifndef MCCS_SHIM_INCLUDE_MCCS_NCCL_OPTIONS_H_
#define MCCS_SHIM_INCLUDE_MCCS_NCCL_OPTIONS_H_

#define MCCS_NCCL_VENDOR_ID 0x6dcc51

/* 1 (yields to all others) to 7 (goes first). */
#define MCCS_OPTION_PRIORITY 1

/* Microseconds, 1 and more: the call should be done so long after its inputs are there. */
#define MCCS_OPTION_DEADLINE_US 2

/* What it costs the program when the call is late: one of the three below. */
#define MCCS_OPTION_CRITICALITY 3
#define MCCS_CRITICALITY_BACKGROUND \
  1 /* nobody waits for it: a checkpoint, something fetched ahead */
#define MCCS_CRITICALITY_NORMAL 2
#define MCCS_CRITICALITY_CRITICAL 3 /* every rank stands still until it is done */

#endif /* MCCS_SHIM_INCLUDE_MCCS_NCCL_OPTIONS_H_ */
