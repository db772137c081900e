/* The options that MCCS understands in an ncclCollConfig_t (NCCL 2.32 and later). Other NCCL
 * libraries ignore them, so a program that uses them runs anywhere. Plain C; needs no other
 * header.
 *
 *   ncclConfigExt_t deadline = {NULL, {MCCS_NCCL_VENDOR_ID, MCCS_OPTION_DEADLINE_US}, {.i = 2000}};
 *   ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
 *   config.ext = &deadline;
 *   ncclAllReduceConfig(send, recv, count, type, op, comm, stream, &config);
 *
 * All values are integers (val.i). The call returns ncclInvalidArgument for a value out of its
 * range, an option that this release does not know, and an option that is given twice. MCCS records
 * the options with the call and shows them to the operator (mccsctl describe communicator). */
#ifndef MCCS_SHIM_INCLUDE_MCCS_NCCL_OPTIONS_H_
#define MCCS_SHIM_INCLUDE_MCCS_NCCL_OPTIONS_H_

#define MCCS_NCCL_VENDOR_ID 0x6dcc51

/* 1 (lowest) to 7 (highest). */
#define MCCS_OPTION_PRIORITY 1

/* Microseconds, at least 1: time from the call's inputs being ready to its completion. */
#define MCCS_OPTION_DEADLINE_US 2

/* The cost of a late call for the program: one of the three values below. */
#define MCCS_OPTION_CRITICALITY 3
#define MCCS_CRITICALITY_BACKGROUND 1 /* nothing waits for it: a checkpoint, a prefetch */
#define MCCS_CRITICALITY_NORMAL 2
#define MCCS_CRITICALITY_CRITICAL 3 /* all ranks wait for it */

#endif /* MCCS_SHIM_INCLUDE_MCCS_NCCL_OPTIONS_H_ */
