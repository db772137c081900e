// The extension's one entry point. The emulated runtime calls it when it finds PyTorch in its
// process.
#include <cstdio>
#include <exception>

#include "emulation/include/mccs_emulation_torch.h"
#include "emulation/torch/device_allocation_scope.h"
#include "emulation/torch/kernels.h"
#include "emulation/torch/registration.h"

extern "C" __attribute__((visibility("default"))) int mccsEmulationStartTorch(void) {
  try {
    mccs::torch_on_host::InstallDeviceAllocator();
    mccs::torch_on_host::RedirectOperators();
  } catch (const std::exception& error) {
    fprintf(stderr, "emulated CUDA: cannot redirect PyTorch's operators: %s\n", error.what());
    return -1;
  }
  return mccs::torch_on_host::RegisterKernels() ? 0 : -1;
}
