#include "shim/api/entry_points.h"

#include <atomic>

#ifndef __x86_64__
#error "the jumps to NCCL's functions are written for x86-64 only"
#endif

// The entry points. ncclX is weak and pncclX strong, at one address. Each is followed by its first
// target and by the target for a library that lacks the function: both store the function's number
// and continue in the common part below.
#define MCCS_ENTRY(number, name)                                   \
  asm(".text\n.p2align 4\n"                                        \
      ".weak nccl" #name "\n.globl pnccl" #name                    \
      "\n"                                                         \
      ".type nccl" #name                                           \
      ", @function\n"                                              \
      ".type pnccl" #name                                          \
      ", @function\n"                                              \
      "nccl" #name ":\npnccl" #name                                \
      ":\n"                                                        \
      "  jmp *mccs_targets + 8 * " #number                         \
      "(%rip)\n"                                                   \
      ".size nccl" #name ", . - nccl" #name                        \
      "\n"                                                         \
      ".size pnccl" #name ", . - pnccl" #name                      \
      "\n"                                                         \
      ".globl mccs_first_" #name "\n.hidden mccs_first_" #name     \
      "\n"                                                         \
      "mccs_first_" #name ":\n  pushq $" #number                   \
      "\n  jmp mccs_first_call\n"                                  \
      ".globl mccs_missing_" #name "\n.hidden mccs_missing_" #name \
      "\n"                                                         \
      "mccs_missing_" #name ":\n  movl $" #number ", %edi\n  jmp mccs_missing_call\n");
#include "shim/entry_points.inc"
#undef MCCS_ENTRY

// The first call of a function: saves the registers that hold arguments, asks for the target, and
// jumps to it as if it had been called directly.
//   stack on entry: | number | return address | the caller's …
asm(R"(
.text
.p2align 4
.type mccs_first_call, @function
mccs_first_call:
  .cfi_startproc
  .cfi_def_cfa_offset 16
  pushq %rbp
  .cfi_def_cfa_offset 24
  .cfi_offset %rbp, -24
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  pushq %rdi
  pushq %rsi
  pushq %rdx
  pushq %rcx
  pushq %r8
  pushq %r9
  andq $-16, %rsp
  movl 8(%rbp), %edi
  call mccs_choose_target
  movq %rax, %r11
  movq -8(%rbp), %rdi
  movq -16(%rbp), %rsi
  movq -24(%rbp), %rdx
  movq -32(%rbp), %rcx
  movq -40(%rbp), %r8
  movq -48(%rbp), %r9
  movq %rbp, %rsp
  popq %rbp
  .cfi_def_cfa %rsp, 16
  addq $8, %rsp
  .cfi_def_cfa_offset 8
  jmp *%r11
  .cfi_endproc
.size mccs_first_call, . - mccs_first_call
)");

using mccs::shim::EntryNumber;
using mccs::shim::Target;

extern "C" {

#define MCCS_ENTRY(number, name)                                  \
  __attribute__((visibility("hidden"))) void mccs_own_##name();   \
  __attribute__((visibility("hidden"))) void mccs_first_##name(); \
  __attribute__((visibility("hidden"))) void mccs_missing_##name();
#include "shim/entry_points.inc"
#undef MCCS_ENTRY

// The jumps read this: plain loads of aligned words, which pair with the release store of
// SetTarget.
extern __attribute__((visibility("hidden"))) Target mccs_targets[];
Target mccs_targets[] = {
#define MCCS_ENTRY(number, name) &mccs_first_##name,
#include "shim/entry_points.inc"
#undef MCCS_ENTRY
};

__attribute__((visibility("hidden"), used)) Target mccs_choose_target(unsigned number) {
  return mccs::shim::ChooseTarget(static_cast<EntryNumber>(number));
}

__attribute__((visibility("hidden"), used)) int mccs_missing_call(unsigned number) {
  return mccs::shim::ReportMissing(static_cast<EntryNumber>(number));
}

}  // extern "C"

namespace mccs::shim {
namespace {

struct Facts {
  const char* name;
  Target own;
  Target missing;
};
constexpr Facts kFacts[] = {
#define MCCS_ENTRY(number, name) {"nccl" #name, &mccs_own_##name, &mccs_missing_##name},
#include "shim/entry_points.inc"
#undef MCCS_ENTRY
};

}  // namespace

void SetTarget(EntryNumber entry, Target target) {
  std::atomic_ref(mccs_targets[entry]).store(target, std::memory_order_release);
}

Target OwnTarget(EntryNumber entry) { return kFacts[entry].own; }
Target MissingTarget(EntryNumber entry) { return kFacts[entry].missing; }
const char* NameOf(EntryNumber entry) { return kFacts[entry].name; }

}  // namespace mccs::shim
