// native_dropout. Its host version would use the host's random number generator.
#include <ATen/ATen.h>

#include "emulation/torch/composed.h"

namespace mccs::torch_on_host {
namespace {

std::tuple<at::Tensor, at::Tensor> NativeDropout(const at::Tensor& input, double probability,
                                                 std::optional<bool> train) {
  at::Tensor mask = at::empty_like(input, input.options().dtype(c10::kBool));
  if (!train.value_or(true)) return {input.clone(), mask.fill_(true)};
  const double kept = 1 - probability;
  mask.bernoulli_(kept);
  return {input.mul(mask).mul_(kept == 0 ? 0 : 1 / kept), mask};
}

}  // namespace

void RegisterDropout(torch::Library* library) { library->impl("native_dropout", NativeDropout); }

}  // namespace mccs::torch_on_host
