// MCCS_AWAIT_FENCE_FATBIN: the file that nvcc makes of await_fence.cu.
        .section .rodata
        .balign 16
        .globl mccs_await_fence_image
        .hidden mccs_await_fence_image
        .type mccs_await_fence_image, @object
mccs_await_fence_image:
        .incbin MCCS_AWAIT_FENCE_FATBIN
        .size mccs_await_fence_image, . - mccs_await_fence_image
        .section .note.GNU-stack, "", @progbits
