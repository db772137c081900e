// The backward function of RMSNorm: y = w · x̂ with x̂ = x · rstd.
#include <ATen/ATen.h>

#include <array>
#include <vector>

#include "emulation/torch/composed.h"

namespace mccs::torch_on_host {
namespace {

using at::Tensor;

std::tuple<Tensor, Tensor> RmsNormBackward(const Tensor& grad_output, const Tensor& input,
                                           at::IntArrayRef normalized_shape, const Tensor& rstd,
                                           const std::optional<Tensor>& weight,
                                           std::array<bool, 2> wanted) {
  const auto type = AccumulationType(input);
  const auto outer = input.dim() - static_cast<int64_t>(normalized_shape.size());
  std::vector<int64_t> outer_dims, normalized_dims;
  for (int64_t dim = 0; dim < input.dim(); ++dim) {
    (dim < outer ? outer_dims : normalized_dims).push_back(dim);
  }
  const bool has_weight = weight && weight->defined();
  const Tensor gradient = grad_output.to(type), scale = rstd.to(type);
  const Tensor normalized = input.to(type) * scale;
  Tensor grad_input, grad_weight;
  if (wanted[0]) {
    const Tensor weighted = has_weight ? gradient * weight->to(type) : gradient;
    const Tensor along = (weighted * normalized).mean(normalized_dims, /*keepdim=*/true);
    grad_input = ((weighted - normalized * along) * scale).to(input.scalar_type());
  }
  if (wanted[1] && has_weight) {
    const Tensor product = gradient * normalized;
    grad_weight =
        (outer_dims.empty() ? product : product.sum(outer_dims)).to(weight->scalar_type());
  }
  return {grad_input, grad_weight};
}

}  // namespace

void RegisterRmsNormBackward(torch::Library* library) {
  library->impl("_fused_rms_norm_backward", RmsNormBackward);
}

}  // namespace mccs::torch_on_host
