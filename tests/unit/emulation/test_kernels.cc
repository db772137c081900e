// A shared object of MCCS_EMULATION_KERNELS, with a kernel of each kind.

#include "emulation/include/mccs_emulation_kernel.h"

namespace {

constexpr uint32_t kBytes[] = {sizeof(int)};
constexpr MccsEmulatedKernel kOrdinary[] = {{sizeof(MccsEmulatedKernel), "_Z8ordinaryv",
                                             [](const MccsEmulatedLaunch*, void* const*) {}, 0,
                                             nullptr, 0}};
constexpr MccsEmulatedResumableKernel kResumable[] = {
    {sizeof(MccsEmulatedResumableKernel), "_Z9resumablei",
     [](const MccsEmulatedLaunch*, void* const*) -> void* { return nullptr; },
     [](void*, MccsEmulatedWait*) { return MCCS_EMULATED_FINISHED; }, [](void*) {}, 1, kBytes, 0}};

}  // namespace

extern "C" {

const MccsEmulatedKernel* mccsEmulatedKernels(size_t* count) {
  *count = 1;
  return kOrdinary;
}

const MccsEmulatedResumableKernel* mccsEmulatedResumableKernels(size_t* count) {
  *count = 1;
  return kResumable;
}

}  // extern "C"
