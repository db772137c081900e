// MCCS_RUN_COMMANDS_FATBIN: the file that nvcc makes of run_commands.cu.
        .section .rodata
        .balign 16
        .globl mccs_run_commands_image
        .hidden mccs_run_commands_image
        .type mccs_run_commands_image, @object
mccs_run_commands_image:
        .incbin MCCS_RUN_COMMANDS_FATBIN
        .size mccs_run_commands_image, . - mccs_run_commands_image
        .section .note.GNU-stack, "", @progbits
