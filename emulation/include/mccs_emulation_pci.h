/* PCI addresses of emulated GPUs. Programs and the daemon, which does not see the GPUs, use both
 * these formulas. */
#ifndef MCCS_EMULATION_PCI_H_
#define MCCS_EMULATION_PCI_H_

#define MCCS_EMULATION_GPUS_PER_PCI_DOMAIN 14 /* buses 0x10, 0x20, … 0xe0 */

/* `ordinal`: of the GPU in its host, before CUDA_VISIBLE_DEVICES. */
#define MCCS_EMULATION_PCI_DOMAIN(ordinal) ((ordinal) / MCCS_EMULATION_GPUS_PER_PCI_DOMAIN)
#define MCCS_EMULATION_PCI_BUS(ordinal) \
  (0x10 * ((ordinal) % MCCS_EMULATION_GPUS_PER_PCI_DOMAIN + 1))
/* Formats domain and bus as CUDA does: "0000:10:00.0". */
#define MCCS_EMULATION_PCI_FORMAT "%04x:%02x:00.0"

#endif /* MCCS_EMULATION_PCI_H_ */
