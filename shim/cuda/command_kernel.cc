#include "shim/cuda/command_kernel.h"

#include "absl/strings/str_cat.h"
#include "base/sealed_file.h"
#include "base/status_macros.h"
#include "proto/fence_page.h"
#include "shim/cuda/kernel_loading.h"

namespace mccs::shim {
namespace {

// Each block runs the programs of some channels.
constexpr unsigned kBlocks = 16;
constexpr unsigned kThreads = 512;

absl::Status LoadError(const absl::Status& why) {
  return {why.code(), absl::StrCat("cannot load mccsd's kernel for collectives: ", why.message())};
}

absl::StatusOr<SealedContents> Map(const KernelImageFile& image) {
  if (image.bytes == 0) return absl::InternalError("the daemon sent no image");
  if (!image.file.valid()) return absl::InternalError("the daemon sent no file with it");
  return SealedContents::Map(image.file.get(), image.bytes);
}

}  // namespace

absl::StatusOr<CommandKernel> CommandKernel::Make(const DriverApi& driver,
                                                  const KernelImageFile& image) {
  const absl::StatusOr<SealedContents> contents = Map(image);
  if (!contents.ok()) {
    return LoadError(absl::InternalError(
        absl::StrCat("invalid image: ", contents.status().message(),
                     "; install mccsd and libnccl.so.2 from the same release")));
  }
  CommandKernel result(driver, image.architectures);
  const absl::StatusOr<CUkernel> kernel =
      LoadKernel(driver, contents->data(), wire::kRunCommandsKernel, result.architectures_);
  if (!kernel.ok()) return LoadError(kernel.status());
  result.kernel_ = *kernel;
  return result;
}

absl::Status CommandKernel::Prepare() const {
  const absl::Status loaded = LoadOntoGpu(*driver_, kernel_, architectures_);
  return loaded.ok() ? loaded : LoadError(loaded);
}

CUresult CommandKernel::Enqueue(CUstream stream, CUdeviceptr queue, CUdeviceptr done,
                                uint64_t value) const {
  void* parameters[] = {&queue, &done, &value};
  return driver_->LaunchKernel(reinterpret_cast<CUfunction>(kernel_), kBlocks, 1, 1, kThreads, 1, 1,
                               0, stream, parameters, nullptr);
}

}  // namespace mccs::shim
