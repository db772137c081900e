#include "shim/cuda/cuda_error.h"

#include <cstring>
#include <string>

#include "absl/strings/cord.h"

namespace mccs::shim {
namespace {

constexpr char kPayload[] = "mccs/gpu_failure";

constexpr std::string_view kMemoryError =
    "the GPU's memory has an error that cannot be corrected; see nvidia-smi -q -d "
    "ECC,ROW_REMAPPER, "
    "and reset the GPU or replace it";
constexpr std::string_view kKernelError =
    "a kernel of this process failed, and with it the process's context; find it with "
    "compute-sanitizer, and see dmesg for NVIDIA's Xid";
constexpr std::string_view kLostError =
    "the GPU does not respond; see dmesg for NVIDIA's Xid, and reset the GPU or restart the host";

struct Explanation {
  CUresult error;
  bool gpu_failed;
  std::string_view text;
};

constexpr Explanation kExplanations[] = {
    {CUDA_ERROR_OUT_OF_MEMORY, false,
     "no memory is left on the GPU, or the process may lock no more memory; free GPU memory (in "
     "PyTorch: torch.cuda.empty_cache), use smaller messages, or raise ulimit -l"},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, false,
     "the GPU has too few registers or too little memory for the kernel's stack; free GPU memory, "
     "and lower limits of the context that the program has raised (cudaDeviceSetLimit)"},
    {CUDA_ERROR_NO_DEVICE, false,
     "this process sees no GPU; check nvidia-smi and CUDA_VISIBLE_DEVICES, and in a container that "
     "it was given GPUs"},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, false,
     "another process uses this GPU, which is in exclusive or prohibited mode; end that process, "
     "or "
     "set nvidia-smi --compute-mode=DEFAULT. MCCS's daemon opens no context on GPUs"},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, false,
     "NVIDIA's kernel module and libcuda.so.1 have different versions; restart the host after an "
     "update of the driver, or use the host's libcuda.so.1 in the container"},
    {CUDA_ERROR_SYSTEM_NOT_READY, false,
     "the GPUs' fabric is not ready; start nvidia-fabricmanager on this host"},
    {CUDA_ERROR_MPS_CONNECTION_FAILED, false,
     "the process cannot reach MPS's server; start nvidia-cuda-mps-control, or unset "
     "CUDA_MPS_PIPE_DIRECTORY"},
    {CUDA_ERROR_ECC_UNCORRECTABLE, true, kMemoryError},
    {CUDA_ERROR_NVLINK_UNCORRECTABLE, true,
     "NVLink has an error that cannot be corrected; see nvidia-smi nvlink --errorcounters, and "
     "reset the GPUs that it connects"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, true, kKernelError},
    {CUDA_ERROR_LAUNCH_FAILED, true, kKernelError},
    {CUDA_ERROR_LAUNCH_TIMEOUT, true, kKernelError},
    {CUDA_ERROR_ASSERT, true, kKernelError},
    {CUDA_ERROR_HARDWARE_STACK_ERROR, true, kKernelError},
    {CUDA_ERROR_ILLEGAL_INSTRUCTION, true, kKernelError},
    {CUDA_ERROR_MISALIGNED_ADDRESS, true, kKernelError},
    {CUDA_ERROR_INVALID_ADDRESS_SPACE, true, kKernelError},
    {CUDA_ERROR_INVALID_PC, true, kKernelError},
    {CUDA_ERROR_CONTAINED, true, kMemoryError},
    {CUDA_ERROR_MPS_CLIENT_TERMINATED, true,
     "MPS's server ended because another process failed on the GPU; start this process again"},
    {CUDA_ERROR_EXTERNAL_DEVICE, true, kLostError},
    {CUDA_ERROR_UNKNOWN, true, kLostError},
};

const Explanation* Find(CUresult error) {
  for (const Explanation& entry : kExplanations) {
    if (entry.error == error) return &entry;
  }
  return nullptr;
}

}  // namespace

std::string_view ExplainCudaError(CUresult error) {
  const Explanation* entry = Find(error);
  return entry == nullptr ? std::string_view() : entry->text;
}

void AttachGpuFailure(const GpuFailure& failure, absl::Status* status) {
  const Explanation* entry = Find(failure.error);
  if (entry == nullptr || !entry->gpu_failed) return;
  status->SetPayload(kPayload, absl::Cord(absl::string_view(reinterpret_cast<const char*>(&failure),
                                                            sizeof(failure))));
}

std::optional<GpuFailure> GpuFailureOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload.has_value()) return std::nullopt;
  const std::string bytes(*payload);
  GpuFailure failure;
  if (bytes.size() != sizeof(failure)) return std::nullopt;
  std::memcpy(&failure, bytes.data(), sizeof(failure));
  return failure;
}

}  // namespace mccs::shim
