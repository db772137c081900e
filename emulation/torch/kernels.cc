#include "emulation/torch/kernels.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>
#include <c10/util/Half.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "emulation/include/mccs_emulation_kernel.h"
#include "mccs_torch_spin_kernel.h"  // generated

namespace mccs::torch_on_host {
namespace {

// Reports a failed device-side assertion. As on a GPU, the process cannot use CUDA afterwards.
void AssertionFailed(int device) {
  fprintf(stderr,
          "emulated CUDA: device-side assertion on GPU %d: checkForNaN found a NaN in the input of "
          "a collective (TORCH_NCCL_NAN_CHECK)\n",
          device);
  mccsEmulationFailAssertion();
}

template <typename Type>
void CheckForNan(const MccsEmulatedLaunch* launch, void* const* arguments) {
  const Type* const data = *static_cast<Type* const*>(arguments[0]);
  const size_t count = *static_cast<const size_t*>(arguments[1]);
  for (size_t i = 0; i < count; ++i) {
    if (std::isnan(static_cast<float>(data[i]))) return AssertionFailed(launch->device);
  }
}

// The emulated GPU's clock has the frequency of a real one.
constexpr double kCyclesPerNs = 1.98;

void Spin(const MccsEmulatedLaunch*, void* const* arguments) {
  const int64_t cycles = *static_cast<const int64_t*>(arguments[0]);
  std::this_thread::sleep_for(
      std::chrono::nanoseconds(static_cast<int64_t>(static_cast<double>(cycles) / kCyclesPerNs)));
}

constexpr uint32_t kCheckArguments[] = {sizeof(void*), sizeof(size_t)};
constexpr uint32_t kSpinArguments[] = {sizeof(int64_t)};

// The launch blocks, as PyTorch's operators do, so that no collective starts with a NaN.
constexpr MccsEmulatedKernel Check(const char* name, MccsEmulatedKernelFunction run) {
  return {sizeof(MccsEmulatedKernel), name, run, 2, kCheckArguments, 1};
}

}  // namespace

bool RegisterKernels() {
  const MccsEmulatedKernel kernels[] = {
      Check("_ZN4c10d11checkForNaNIfEEvPT_m", CheckForNan<float>),
      Check("_ZN4c10d11checkForNaNIdEEvPT_m", CheckForNan<double>),
      Check("_ZN4c10d11checkForNaNIN3c104HalfEEEvPT_m", CheckForNan<c10::Half>),
      Check("_ZN4c10d11checkForNaNIN3c108BFloat16EEEvPT_m", CheckForNan<c10::BFloat16>),
      Check("_ZN4c10d11checkForNaNIN3c1013Float8_e4m3fnEEEvPT_m", CheckForNan<c10::Float8_e4m3fn>),
      Check("_ZN4c10d11checkForNaNIN3c1011Float8_e5m2EEEvPT_m", CheckForNan<c10::Float8_e5m2>),
      // The mangled name contains a number of the PyTorch build, which our build reads from
      // libtorch_cuda.so.
      {sizeof(MccsEmulatedKernel), MCCS_TORCH_SPIN_KERNEL, Spin, 1, kSpinArguments, 0},
  };
  bool all = true;
  for (const MccsEmulatedKernel& kernel : kernels) all &= mccsEmulationRegisterKernel(&kernel) == 0;
  return all;
}

}  // namespace mccs::torch_on_host
