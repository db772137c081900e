/* Where on the PCI bus an emulated GPU is: what programs that see it, and the daemon that does not, both go by. */
#ifndef MCCS_EMULATION_PCI_H_
#define MCCS_EMULATION_PCI_H_

#define MCCS_EMULATION_GPUS_PER_PCI_DOMAIN 14 /* buses 0x10, 0x20, … 0xe0 */

/* Of the GPU with this ordinal in its host, before CUDA_VISIBLE_DEVICES. */
#define MCCS_EMULATION_PCI_DOMAIN(ordinal) ((ordinal) / MCCS_EMULATION_GPUS_PER_PCI_DOMAIN)
#define MCCS_EMULATION_PCI_BUS(ordinal) (0x10 * ((ordinal) % MCCS_EMULATION_GPUS_PER_PCI_DOMAIN + 1))
/* With both, as CUDA writes it: "0000:10:00.0". */
#define MCCS_EMULATION_PCI_FORMAT "%04x:%02x:00.0"

#endif /* MCCS_EMULATION_PCI_H_ */
