// MCCS_PROBE_KERNELS_FATBIN: the file that nvcc makes of probe_kernels.cu.
        .section .rodata
        .balign 16
        .globl mccs_probe_kernels_image
        .hidden mccs_probe_kernels_image
        .type mccs_probe_kernels_image, @object
mccs_probe_kernels_image:
        .incbin MCCS_PROBE_KERNELS_FATBIN
        .size mccs_probe_kernels_image, . - mccs_probe_kernels_image
        .section .note.GNU-stack, "", @progbits
