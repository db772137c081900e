// Host tensors that share the memory of CUDA tensors, for the duration of one operator.
//
// Emulated device memory is host memory, so a CPU kernel can use it. Results are converted back: a
// result that is an argument, or a view of one, becomes that CUDA tensor. A new result gets a CUDA
// label (device_allocation_scope.h). An argument that the kernel has resized gets its new memory
// and shape.
#ifndef MCCS_EMULATION_TORCH_ALIASES_H_
#define MCCS_EMULATION_TORCH_ALIASES_H_

#include <ATen/core/Tensor.h>

#include <unordered_map>
#include <vector>

namespace mccs::torch_on_host {

// THREAD: the one that calls the operator. LIFETIME: one call.
class Aliases {
 public:
  // Returns the alias of a CUDA tensor with strides, always the same one; returns any other tensor
  // as it is.
  at::Tensor Of(const at::Tensor& tensor);

  // Applies the kernel's changes of the aliases' memory and shape to the arguments.
  // REQUIRES: the current device is the arguments'; this holds for the functions below, too.
  void WriteBack();

  // Call for all results before Return, because they may share memory.
  void ExpectResult(const at::Tensor& result);
  // Returns the CUDA tensor for an expected result.
  at::Tensor Return(const at::Tensor& result, c10::Device device);

 private:
  struct AliasedTensor {
    at::Tensor original;
    at::Tensor alias;
  };
  struct AliasedStorage {
    c10::Storage original;
    c10::Storage alias;
  };

  const c10::Storage& AliasOf(const c10::Storage& storage);
  // Returns the device's storage for a result's: an argument's, or a new one.
  c10::Storage DeviceStorage(const c10::Storage& storage, c10::Device device);

  std::vector<AliasedTensor> tensors_;
  std::vector<AliasedStorage> storages_;
  std::unordered_map<const c10::TensorImpl*, size_t> by_original_;           // into tensors_
  std::unordered_map<const c10::TensorImpl*, size_t> by_alias_;              // into tensors_
  std::unordered_map<const c10::StorageImpl*, size_t> storage_by_original_;  // into storages_
  std::unordered_map<const c10::StorageImpl*, size_t> result_holders_;
  std::unordered_map<const c10::StorageImpl*, c10::Storage> returned_;
};

}  // namespace mccs::torch_on_host

#endif  // MCCS_EMULATION_TORCH_ALIASES_H_
