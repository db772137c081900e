#include "emulation/torch/aliases.h"

#include <ATen/core/TensorBase.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <utility>

#include "emulation/torch/device_allocation_scope.h"

namespace mccs::torch_on_host {
namespace {

using c10::cuda::CUDACachingAllocator::get;

// Returns a tensor over `storage` that otherwise equals `like`.
at::Tensor TensorOver(c10::Storage storage, c10::DispatchKey key, const at::Tensor& like) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(key), like.dtype());
  c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  if (like.is_conj()) tensor._set_conj(true);
  if (like.is_neg()) tensor._set_neg(true);
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  return tensor;
}

bool SameShape(const at::Tensor& one, const at::Tensor& other) {
  return one.sizes() == other.sizes() && one.strides() == other.strides() &&
         one.storage_offset() == other.storage_offset();
}

}  // namespace

const c10::Storage& Aliases::AliasOf(const c10::Storage& storage) {
  c10::StorageImpl* const impl = storage.unsafeGetStorageImpl();
  const auto [place, added] = storage_by_original_.emplace(impl, storages_.size());
  if (added) {
    c10::Storage alias(c10::Storage::use_byte_size_t(), impl->nbytes(),
                       c10::DataPtr(impl->mutable_data(), c10::kCPU), c10::GetAllocator(c10::kCPU),
                       /*resizable=*/true);
    storages_.push_back({storage, std::move(alias)});
  }
  return storages_[place->second].alias;
}

at::Tensor Aliases::Of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda() || tensor.layout() != c10::kStrided) return tensor;
  const auto [place, added] = by_original_.emplace(tensor.unsafeGetTensorImpl(), tensors_.size());
  if (added) {
    at::Tensor alias = TensorOver(AliasOf(tensor.storage()), c10::DispatchKey::CPU, tensor);
    by_alias_.emplace(alias.unsafeGetTensorImpl(), tensors_.size());
    tensors_.push_back({tensor, std::move(alias)});
  }
  return tensors_[place->second].alias;
}

void Aliases::WriteBack() {
  for (AliasedStorage& storage : storages_) {
    c10::StorageImpl* const original = storage.original.unsafeGetStorageImpl();
    const c10::StorageImpl* const alias = storage.alias.unsafeGetStorageImpl();
    const size_t bytes = alias->nbytes();
    if (alias->data() != original->data()) {
      // The kernel has resized it. The storage stays alive through its aliases and this object.
      original->set_data_ptr_noswap(
          MoveToDevice(storage.alias, original->device(), storage.alias.use_count()));
    }
    if (bytes != original->nbytes()) original->set_nbytes(bytes);
  }
  for (const AliasedTensor& tensor : tensors_) {
    if (SameShape(tensor.original, tensor.alias)) continue;
    tensor.original.unsafeGetTensorImpl()->set_sizes_and_strides(
        tensor.alias.sizes(), tensor.alias.strides(), tensor.alias.storage_offset());
  }
}

void Aliases::ExpectResult(const at::Tensor& result) {
  if (result.defined() && result.has_storage()) {
    ++result_holders_[result.storage().unsafeGetStorageImpl()];
  }
}

c10::Storage Aliases::DeviceStorage(const c10::Storage& storage, c10::Device device) {
  const c10::StorageImpl* const impl = storage.unsafeGetStorageImpl();
  for (const AliasedStorage& known : storages_) {
    if (known.alias.unsafeGetStorageImpl() == impl) return known.original;
  }
  c10::Storage& returned = returned_[impl];
  if (!returned) {
    const size_t bytes = impl->nbytes();
    returned = c10::Storage(c10::Storage::use_byte_size_t(), bytes,
                            MoveToDevice(storage, device, result_holders_[impl]), get(), true);
  }
  return returned;
}

at::Tensor Aliases::Return(const at::Tensor& result, c10::Device device) {
  if (!result.defined() || !result.is_cpu() || result.layout() != c10::kStrided) return result;
  const auto known = by_alias_.find(result.unsafeGetTensorImpl());
  if (known != by_alias_.end()) return tensors_[known->second].original;
  if (by_original_.contains(result.unsafeGetTensorImpl())) return result;
  return TensorOver(DeviceStorage(result.storage(), device), c10::DispatchKey::CUDA, result);
}

}  // namespace mccs::torch_on_host
