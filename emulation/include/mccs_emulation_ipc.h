/* The handle by which one process shares emulated device memory with another.
 *
 * These are the 64 bytes of a CUipcMemHandle / cudaIpcMemHandle_t of the emulation. Every emulated
 * allocation is a memfd that can neither shrink nor grow. A handle refers to a whole allocation,
 * from its base. The importing process opens /proc/<pid>/fd/<fd>, checks it and maps it. It
 * compares device, inode, size and seals. The file's name must be MCCS_EMULATION_MEMFD_PREFIX
 * followed by the secret as 16 hexadecimal digits: the owner may have reused the descriptor for
 * another file.
 */
#ifndef MCCS_EMULATION_IPC_H_
#define MCCS_EMULATION_IPC_H_

#include <stdint.h>

#define MCCS_EMULATION_IPC_MAGIC 0x5543454dU /* "MECU" */
#define MCCS_EMULATION_IPC_VERSION 1U
#define MCCS_EMULATION_MEMFD_PREFIX "mccs-emulated-"

/*   0      4        8    12   16      24     32     40      48      52            64
 *   | magic| version| pid| fd | device| inode| bytes| secret| gpu   | zero        |
 */
typedef struct MccsEmulationIpcHandle {
  uint32_t magic;   /* MCCS_EMULATION_IPC_MAGIC */
  uint32_t version; /* MCCS_EMULATION_IPC_VERSION */
  int32_t pid;      /* process that allocated the memory */
  int32_t fd;       /* descriptor of the memfd in that process */
  uint64_t device;  /* st_dev of the memfd */
  uint64_t inode;   /* st_ino of the memfd */
  uint64_t bytes;   /* size of the memfd, and of the mapping; a multiple of the page size */
  uint64_t secret;  /* part of the memfd's name; random */
  uint32_t gpu;     /* ordinal of the emulated GPU in its host, before CUDA_VISIBLE_DEVICES */
  uint32_t zero[3];
} MccsEmulationIpcHandle;

#ifdef __cplusplus
static_assert(sizeof(MccsEmulationIpcHandle) == 64, "the size of a CUipcMemHandle");
#endif

#endif /* MCCS_EMULATION_IPC_H_ */
