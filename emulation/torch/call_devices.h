// The rule that all tensors of a call are on one device.
//
// A GPU kernel checks it, or fails when it reads foreign memory. A CPU kernel over aliases would
// not notice, so it is checked here, with PyTorch's own error messages.
#ifndef MCCS_EMULATION_TORCH_CALL_DEVICES_H_
#define MCCS_EMULATION_TORCH_CALL_DEVICES_H_

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

  // Records a tensor, or a device that is an argument itself.
  // Errors: c10::Error if the operator does not allow it together with the earlier arguments.
  void Add(const at::Tensor& tensor, const std::string& argument);
  void Add(c10::Device device);
  // Call after the last argument: rejects host tensors that the operator does not allow.
  void Finish() const;

  // The CUDA device of the call: the first recorded one.
  const std::optional<c10::Device>& device() const { return device_; }
  const std::vector<c10::Device>& all() const { return all_; }

 private:
  const std::string& name_;
  const bool across_gpus_;   // copies between devices
  const bool accepts_host_;  // also accepts host tensors
  std::optional<c10::Device> device_;
  std::vector<c10::Device> all_;
  at::Tensor host_tensor_;  // the first one that is not a scalar
  std::string host_argument_;
};

}  // namespace mccs::torch_on_host

#endif  // MCCS_EMULATION_TORCH_CALL_DEVICES_H_
