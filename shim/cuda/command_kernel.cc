#include "shim/cuda/command_kernel.h"

#include "absl/strings/str_cat.h"
#include "base/sealed_file.h"
#include "base/status_macros.h"
#include "kernels/block_words.h"
#include "proto/fence_page.h"
#include "shim/cuda/kernel_loading.h"

namespace mccs::shim {
namespace {

constexpr unsigned kThreads = 512;
// One block of threads runs such a call as fast as several, and takes less of the GPU.
constexpr uint64_t kOneBlockBytes = 64 << 10;

constexpr unsigned BlocksFor(uint64_t largest_call_bytes) {
  return largest_call_bytes <= kOneBlockBytes ? 1 : kernels::kMaxBlocks;
}

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

CUresult CommandKernel::Enqueue(CUstream stream, const KernelQueueAddresses& queue,
                                CUdeviceptr done, uint64_t value,
                                uint64_t largest_call_bytes) const {
  KernelQueueAddresses its = queue;
  void* parameters[] = {&its.queue, &its.words, &done, &value};
  return driver_->LaunchKernel(reinterpret_cast<CUfunction>(kernel_), BlocksFor(largest_call_bytes),
                               1, 1, kThreads, 1, 1, 0, stream, parameters, nullptr);
}

}  // namespace mccs::shim
