#include "emulation/torch/call_devices.h"

#include <ATen/core/op_registration/adaption.h>

#include <algorithm>
#include <string_view>

#include "absl/algorithm/container.h"

namespace mccs::torch_on_host {
namespace {

constexpr std::string_view kCopies[] = {"aten::copy_", "aten::_foreach_copy_"};

// Operators whose indices, lengths or lists of scalars may be on the host.
constexpr std::string_view kAcceptHostTensors[] = {
    "aten::index",
    "aten::_unsafe_index",
    "aten::index_put_",
    "aten::_index_put_impl_",
    "aten::_unsafe_index_put",
    "aten::_pack_padded_sequence",
    "aten::_foreach_addcdiv",
    "aten::_foreach_addcdiv_",
    "aten::_foreach_addcmul",
    "aten::_foreach_addcmul_",
    "aten::_ctc_loss",
    "aten::_ctc_loss_backward",
};

}  // namespace

CallDevices::CallDevices(const c10::OperatorHandle& op)
    : name_(op.schema().name()),
      across_gpus_(absl::c_linear_search(kCopies, name_)),
      accepts_host_(across_gpus_ || absl::c_linear_search(kAcceptHostTensors, name_)) {}

void CallDevices::Add(const at::Tensor& tensor, const std::string& argument) {
  if (!tensor.defined()) return;
  if (tensor.is_cuda()) {
    if (device_ && *device_ != tensor.device() && !across_gpus_) {
      c10::impl::common_device_check_failure(*device_, tensor, name_.c_str(), argument.c_str());
    }
    Add(tensor.device());
  } else if (tensor.dim() > 0 && !host_tensor_.defined()) {
    host_tensor_ = tensor;
    host_argument_ = argument;
  }
}

void CallDevices::Add(c10::Device device) {
  if (!device_) device_ = device;
  if (std::find(all_.begin(), all_.end(), device) == all_.end()) all_.push_back(device);
}

void CallDevices::Finish() const {
  if (!device_ || accepts_host_ || !host_tensor_.defined()) return;
  c10::impl::common_device_check_failure(*device_, host_tensor_, name_.c_str(),
                                         host_argument_.c_str());
}

}  // namespace mccs::torch_on_host
