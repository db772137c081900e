// MCCS_RUN_COMMANDS_FATBIN: the file that nvcc makes of run_commands.cu.
// MCCS_RUN_COMMANDS_ARCHITECTURES: the GPUs that it supports.
// MCCS_RUN_COMMANDS_CUDA_VERSION: of its compiler, such as 13000.
        .section .rodata
        .balign 16
        .globl mccs_run_commands_image
        .hidden mccs_run_commands_image
        .type mccs_run_commands_image, @object
mccs_run_commands_image:
        .incbin MCCS_RUN_COMMANDS_FATBIN
        .size mccs_run_commands_image, . - mccs_run_commands_image
        .globl mccs_run_commands_image_end
        .hidden mccs_run_commands_image_end
mccs_run_commands_image_end:

        .globl mccs_run_commands_architectures
        .hidden mccs_run_commands_architectures
        .type mccs_run_commands_architectures, @object
mccs_run_commands_architectures:
        .asciz MCCS_RUN_COMMANDS_ARCHITECTURES
        .size mccs_run_commands_architectures, . - mccs_run_commands_architectures

        .balign 4
        .globl mccs_run_commands_cuda_version
        .hidden mccs_run_commands_cuda_version
        .type mccs_run_commands_cuda_version, @object
mccs_run_commands_cuda_version:
        .long MCCS_RUN_COMMANDS_CUDA_VERSION
        .size mccs_run_commands_cuda_version, . - mccs_run_commands_cuda_version
        .section .note.GNU-stack, "", @progbits
