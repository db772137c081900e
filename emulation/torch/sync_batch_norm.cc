// The operators of SyncBatchNorm. Channels are dimension 1; statistics are over all other
// dimensions.
#include <ATen/ATen.h>

#include <vector>

#include "emulation/torch/composed.h"

namespace mccs::torch_on_host {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

std::vector<int64_t> AllButChannels(const Tensor& input) {
  std::vector<int64_t> dims;
  for (int64_t dim = 0; dim < input.dim(); ++dim) {
    if (dim != 1) dims.push_back(dim);
  }
  return dims;
}

// Returns one value per channel, in a shape that broadcasts to `input`.
Tensor PerChannel(const Tensor& values, const Tensor& input) {
  std::vector<int64_t> shape(static_cast<size_t>(input.dim()), 1);
  shape[1] = values.numel();
  return values.to(AccumulationType(input)).reshape(shape);
}

bool IsGiven(const OptionalTensor& tensor) { return tensor && tensor->defined(); }

// Converts to the input's type and memory format.
Tensor Like(const Tensor& input, const Tensor& result) {
  return result.to(input.scalar_type()).contiguous(input.suggest_memory_format());
}

std::tuple<Tensor, Tensor> Statistics(const Tensor& input, double epsilon) {
  const Tensor x = input.to(AccumulationType(input));
  const Tensor mean = x.mean(AllButChannels(x));
  const Tensor variance = (x - PerChannel(mean, x)).square().mean(AllButChannels(x));
  return {mean, (variance + epsilon).rsqrt()};
}

// Combines the statistics of all ranks (one row each).
std::tuple<Tensor, Tensor> GatherStatistics(const Tensor&, const Tensor& mean, const Tensor& invstd,
                                            const OptionalTensor& running_mean,
                                            const OptionalTensor& running_variance, double momentum,
                                            double epsilon, const Tensor& counts) {
  const Tensor count = counts.to(mean.scalar_type()).reshape({-1, 1});
  const Tensor total = count.sum();
  const Tensor all_mean = (mean * count).sum(0) / total;
  const Tensor variance = invstd.pow(-2) - epsilon;
  const Tensor all_variance = ((variance + (mean - all_mean).square()) * count).sum(0) / total;
  if (IsGiven(running_mean)) running_mean->mul_(1 - momentum).add_(all_mean * momentum);
  if (IsGiven(running_variance)) {
    running_variance->mul_(1 - momentum).add_(all_variance * (total / (total - 1)) * momentum);
  }
  return {all_mean, (all_variance + epsilon).rsqrt()};
}

std::tuple<Tensor, Tensor> GatherEqualStatistics(const Tensor& input, const Tensor& mean,
                                                 const Tensor& invstd,
                                                 const OptionalTensor& running_mean,
                                                 const OptionalTensor& running_variance,
                                                 double momentum, double epsilon, int64_t count) {
  const Tensor counts = at::full({mean.size(0)}, count, mean.options());
  return GatherStatistics(input, mean, invstd, running_mean, running_variance, momentum, epsilon,
                          counts);
}

Tensor Normalize(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                 const Tensor& mean, const Tensor& invstd, double) {
  Tensor result =
      (input.to(AccumulationType(input)) - PerChannel(mean, input)) * PerChannel(invstd, input);
  if (IsGiven(weight)) result = result * PerChannel(*weight, input);
  if (IsGiven(bias)) result = result + PerChannel(*bias, input);
  return Like(input, result);
}

Tensor& NormalizeOut(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                     const Tensor& mean, const Tensor& invstd, double epsilon, Tensor& out) {
  return out.copy_(Normalize(input, weight, bias, mean, invstd, epsilon));
}

std::tuple<Tensor, Tensor, Tensor, Tensor> ReduceBackward(
    const Tensor& grad_output, const Tensor& input, const Tensor& mean, const Tensor& invstd,
    const OptionalTensor& weight, bool /*input_gradient*/, bool weight_gradient,
    bool bias_gradient) {
  const auto type = AccumulationType(input);
  const Tensor gradient = grad_output.to(type);
  const Tensor centred = input.to(type) - PerChannel(mean, input);
  const Tensor sum = gradient.sum(AllButChannels(input));
  const Tensor sum_centred = (gradient * centred).sum(AllButChannels(input));
  const auto weight_type = IsGiven(weight) ? weight->scalar_type() : type;
  return {sum, sum_centred, weight_gradient ? (sum_centred * invstd).to(weight_type) : Tensor(),
          bias_gradient ? sum.to(weight_type) : Tensor()};
}

Tensor InputGradient(const Tensor& grad_output, const Tensor& input, const Tensor& mean,
                     const Tensor& invstd, const OptionalTensor& weight, const Tensor& sum,
                     const Tensor& sum_centred, const Tensor& counts) {
  const auto type = AccumulationType(input);
  const Tensor total = counts.sum().to(type);
  const Tensor centred = input.to(type) - PerChannel(mean, input);
  const Tensor along = centred * PerChannel(invstd.square() * sum_centred / total, input);
  Tensor result =
      (grad_output.to(type) - PerChannel(sum / total, input) - along) * PerChannel(invstd, input);
  if (IsGiven(weight)) result = result * PerChannel(*weight, input);
  return Like(input, result);
}

}  // namespace

void RegisterSyncBatchNorm(torch::Library* library) {
  library->impl("batch_norm_stats", Statistics);
  library->impl("batch_norm_gather_stats", GatherEqualStatistics);
  library->impl("batch_norm_gather_stats_with_counts", GatherStatistics);
  library->impl("batch_norm_elemt", Normalize);
  library->impl("batch_norm_elemt.out", NormalizeOut);
  library->impl("batch_norm_backward_reduce", ReduceBackward);
  library->impl("batch_norm_backward_elemt", InputGradient);
}

}  // namespace mccs::torch_on_host
