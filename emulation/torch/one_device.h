// The rule that all tensors of a call are on one device.
//
// A kernel for the GPU checks it, or fails when it reads foreign memory. A CPU kernel over aliases
// would not notice, so it is checked again here, with PyTorch's own words.
#ifndef MCCS_EMULATION_TORCH_ONE_DEVICE_H_
#define MCCS_EMULATION_TORCH_ONE_DEVICE_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <vector>

namespace mccs::torch_on_host {

// The devices of one call's arguments. THREAD: one. LIFETIME: one call.
class CallDevices {
 public:
  explicit CallDevices(const c10::OperatorHandle& op);

  // Takes a tensor, or a device that is an argument itself, into account.
  // Errors: c10::Error where the operator does not allow it beside what came before.
  void See(const at::Tensor& tensor, const std::string& argument);
  void See(c10::Device device);
  // After the last argument: tensors of the host that have no business here.
  void Finish() const;

  // The CUDA device of the call: the first that was seen.
  const std::optional<c10::Device>& device() const { return device_; }
  const std::vector<c10::Device>& all() const { return all_; }

 private:
  const std::string& name_;
  const bool across_gpus_;    // copies between devices
  const bool with_the_host_;  // takes tensors of the host besides
  std::optional<c10::Device> device_;
  std::vector<c10::Device> all_;
  at::Tensor of_the_host_;  // the first one that is no scalar
  std::string its_argument_;
};

}  // namespace mccs::torch_on_host

#endif  // MCCS_EMULATION_TORCH_ONE_DEVICE_H_
