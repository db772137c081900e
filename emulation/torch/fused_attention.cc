// The fused kernels of scaled_dot_product_attention, which a program selects with sdpa_kernel().
//
// All three compute the same: P = softmax(scale · Q Kᵀ + bias), out = dropout(P) V. Tensors are
// [batch, heads, length, features]. The number of heads of keys and values divides that of the
// queries. The gradient uses only the given output and logsumexp, so that a program may pass values
// merged from several calls, as ring attention does.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <ATen/native/transformers/attention.h>

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>

#include "emulation/torch/composed.h"

namespace mccs::torch_on_host {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

struct Settings {
  double dropout = 0;
  bool is_causal = false;
  std::optional<double> scale;
};

struct Inputs {
  Tensor query, key, value;
  Tensor bias;  // undefined: none
};

struct Output {
  Tensor out;
  Tensor logsumexp;  // float32, [batch, heads, length of the queries]
  // Elements of P that dropout has kept; undefined without dropout. A GPU's kernel returns the
  // state of its random numbers here, which is opaque to programs.
  Tensor kept;
};

struct Gradients {
  Tensor query, key, value, bias;
};

Tensor Wide(const Tensor& tensor) { return tensor.to(AccumulationType(tensor)); }

bool IsDefined(const Tensor& tensor) { return tensor.defined() && tensor.numel() > 0; }

// Keys or values, each head repeated for the queries that share it.
Tensor ForHeads(const Tensor& tensor, int64_t heads) {
  return tensor.size(1) == heads ? tensor
                                 : tensor.repeat_interleave(heads / tensor.size(1), /*dim=*/1);
}

// The sum over the queries' heads that share one of `heads`.
Tensor SumOverSharers(const Tensor& gradient, int64_t heads) {
  return gradient.size(1) == heads ? gradient : gradient.unflatten(1, {heads, -1}).sum(2);
}

double Scale(const Inputs& inputs, const Settings& settings) {
  return settings.scale.value_or(1 / std::sqrt(static_cast<double>(inputs.query.size(-1))));
}

// scale · Q Kᵀ + bias, -inf where the mask forbids attention.
Tensor Scores(const Inputs& inputs, const Settings& settings) {
  const Tensor key = ForHeads(Wide(inputs.key), inputs.query.size(1));
  Tensor scores = Wide(inputs.query).matmul(key.transpose(-2, -1)).mul_(Scale(inputs, settings));
  if (IsDefined(inputs.bias)) scores = scores + inputs.bias.to(scores.scalar_type());
  if (settings.is_causal) {
    const Tensor future =
        at::ones({scores.size(-2), scores.size(-1)}, scores.options().dtype(c10::kBool))
            .triu(/*diagonal=*/1);
    scores = scores.masked_fill(future, -std::numeric_limits<double>::infinity());
  }
  return scores;
}

// P. A query with every key masked gets zeros.
Tensor Probabilities(const Tensor& scores, const Tensor& logsumexp) {
  const Tensor sum =
      logsumexp.narrow(-1, 0, scores.size(-2)).to(scores.scalar_type()).unsqueeze(-1);
  return (scores - sum).exp_().masked_fill_(sum.isneginf(), 0);
}

Tensor Drop(const Tensor& tensor, const Tensor& kept, double dropout) {
  if (!IsDefined(kept)) return tensor;
  return tensor.mul(kept).mul_(dropout < 1 ? 1 / (1 - dropout) : 0);
}

// [batch, length, heads, features] in memory, as the kernels return it.
Tensor LengthFirst(const Tensor& tensor) {
  return tensor.transpose(1, 2).contiguous().transpose(1, 2);
}

Output Forward(const Inputs& inputs, const Settings& settings) {
  const Tensor scores = Scores(inputs, settings);
  Output output;
  output.logsumexp = scores.logsumexp(-1);
  const Tensor probabilities = Probabilities(scores, output.logsumexp);
  if (settings.dropout > 0) {
    output.kept = at::empty_like(probabilities, probabilities.options().dtype(c10::kBool))
                      .bernoulli_(1 - settings.dropout);
  }
  const Tensor value = ForHeads(Wide(inputs.value), inputs.query.size(1));
  output.out = LengthFirst(Drop(probabilities, output.kept, settings.dropout).matmul(value))
                   .to(inputs.query.scalar_type());
  output.logsumexp = output.logsumexp.to(c10::kFloat);
  return output;
}

Gradients Backward(const Tensor& gradient, const Inputs& inputs, const Output& output,
                   const Settings& settings) {
  const int64_t heads = inputs.query.size(1), shared_heads = inputs.key.size(1);
  const Tensor slope = Wide(gradient);
  const Tensor probabilities = Probabilities(Scores(inputs, settings), output.logsumexp);
  const Tensor value = ForHeads(Wide(inputs.value), heads);
  const Tensor of_value =
      Drop(probabilities, output.kept, settings.dropout).transpose(-2, -1).matmul(slope);
  const Tensor of_probabilities =
      Drop(slope.matmul(value.transpose(-2, -1)), output.kept, settings.dropout);
  const Tensor along = (slope * Wide(output.out)).sum(-1, /*keepdim=*/true);
  const Tensor of_scores = probabilities * (of_probabilities - along);
  const double scale = Scale(inputs, settings);
  const Tensor of_query = of_scores.matmul(ForHeads(Wide(inputs.key), heads)).mul_(scale);
  const Tensor of_key = of_scores.transpose(-2, -1).matmul(Wide(inputs.query)).mul_(scale);
  Gradients gradients{
      .query = of_query.to(inputs.query.scalar_type()),
      .key = SumOverSharers(of_key, shared_heads).to(inputs.key.scalar_type()),
      .value = SumOverSharers(of_value, inputs.value.size(1)).to(inputs.value.scalar_type()),
      .bias = {}};
  if (IsDefined(inputs.bias)) {
    gradients.bias = of_scores.sum_to_size(inputs.bias.sizes()).to(inputs.bias.scalar_type());
  }
  return gradients;
}

Tensor OpaqueState(const Tensor& kept, const Tensor& like) {
  return kept.defined() ? kept : at::empty({0}, like.options().dtype(c10::kBool));
}

using FlashResult =
    std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>;

FlashResult AsFlash(const Inputs& inputs, const Output& output) {
  const Tensor state = OpaqueState(output.kept, inputs.query);
  const Tensor none = at::empty({0}, inputs.query.options());
  return {output.out,
          output.logsumexp,
          Tensor(),
          Tensor(),
          inputs.query.size(2),
          inputs.key.size(2),
          state,
          at::empty({0}, state.options()),
          none};
}

FlashResult Flash(const Tensor& query, const Tensor& key, const Tensor& value, double dropout,
                  bool is_causal, bool /*return_debug_mask*/, std::optional<double> scale) {
  const Inputs inputs{query, key, value, {}};
  return AsFlash(inputs, Forward(inputs, {dropout, is_causal, scale}));
}

std::tuple<Tensor, Tensor, Tensor> FlashBackward(const Tensor& gradient, const Tensor& query,
                                                 const Tensor& key, const Tensor& value,
                                                 const Tensor& out, const Tensor& logsumexp,
                                                 const Tensor&, const Tensor&, c10::SymInt,
                                                 c10::SymInt, double dropout, bool is_causal,
                                                 const Tensor& kept, const Tensor&,
                                                 std::optional<double> scale) {
  const Gradients gradients = Backward(gradient, {query, key, value, {}}, {out, logsumexp, kept},
                                       {dropout, is_causal, scale});
  return {gradients.query, gradients.key, gradients.value};
}

FlashResult Cudnn(const Tensor& query, const Tensor& key, const Tensor& value,
                  const MaybeTensor& bias, bool /*compute_logsumexp*/, double dropout,
                  bool is_causal, bool /*return_debug_mask*/, std::optional<double> scale) {
  const Inputs inputs{query, key, value, bias.value_or(Tensor())};
  return AsFlash(inputs, Forward(inputs, {dropout, is_causal, scale}));
}

std::tuple<Tensor, Tensor, Tensor> CudnnBackward(const Tensor& gradient, const Tensor& query,
                                                 const Tensor& key, const Tensor& value,
                                                 const Tensor& out, const Tensor& logsumexp,
                                                 const Tensor& kept, const Tensor&,
                                                 const Tensor& bias, const Tensor&, const Tensor&,
                                                 c10::SymInt, c10::SymInt, double dropout,
                                                 bool is_causal, std::optional<double> scale) {
  const Gradients gradients = Backward(gradient, {query, key, value, bias}, {out, logsumexp, kept},
                                       {dropout, is_causal, scale});
  return {gradients.query, gradients.key, gradients.value};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> Efficient(const Tensor& query, const Tensor& key,
                                                     const Tensor& value, const MaybeTensor& bias,
                                                     bool /*compute_logsumexp*/, double dropout,
                                                     bool is_causal, std::optional<double> scale) {
  const Output output =
      Forward({query, key, value, bias.value_or(Tensor())}, {dropout, is_causal, scale});
  const Tensor state = OpaqueState(output.kept, query);
  return {output.out, output.logsumexp, state, at::empty({0}, state.options())};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> EfficientBackward(
    const Tensor& gradient, const Tensor& query, const Tensor& key, const Tensor& value,
    const Tensor& bias, const Tensor& out, const Tensor& logsumexp, const Tensor& kept,
    const Tensor&, double dropout, std::array<bool, 4> wanted, bool is_causal,
    std::optional<double> scale) {
  if (!gradient.defined()) return {};
  Gradients gradients = Backward(gradient, {query, key, value, bias}, {out, logsumexp, kept},
                                 {dropout, is_causal, scale});
  if (!wanted[3]) gradients.bias = Tensor();
  return {gradients.query, gradients.key, gradients.value, gradients.bias};
}

using Choice = at::native::fused_sdp_choice_fn;
Choice pytorchs_choice = nullptr;

// PyTorch's choice for a GPU, but without cuDNN. PyTorch checks only the version of cuDNN, which is
// a stub here.
int64_t ChooseKernel(const Tensor& query, const Tensor& key, const Tensor& value,
                     const MaybeTensor& mask, double dropout, bool is_causal,
                     std::optional<double> scale, bool shared_heads) {
  const at::Context& context = at::globalContext();
  const bool only_cudnn = context.userEnabledCuDNNSDP() && !context.userEnabledFlashSDP() &&
                          !context.userEnabledMemEfficientSDP() && !context.userEnabledMathSDP();
  const bool is_narrow = query.scalar_type() == c10::kHalf || query.scalar_type() == c10::kBFloat16;
  if (only_cudnn && is_narrow && !query.is_nested()) {
    return static_cast<int64_t>(at::SDPBackend::cudnn_attention);
  }
  return pytorchs_choice(query, key, value, mask, dropout, is_causal, scale, shared_heads);
}

// Overrides PyTorch's choice, which only a private member of the stub holds.
void InstallChoice() {
  auto& stub = at::native::_fused_sdp_choice_stub;
  static_assert(sizeof(stub) == sizeof(at::native::DispatchStubImpl));
  auto& holder = reinterpret_cast<at::native::DispatchStubImpl&>(stub);
  pytorchs_choice = reinterpret_cast<Choice>(holder.cuda_dispatch_ptr);
  TORCH_CHECK(pytorchs_choice != nullptr,
              "cannot select attention kernels: PyTorch has no choice function for CUDA");
  stub.set_cuda_dispatch_ptr(ChooseKernel);
}

}  // namespace

void RegisterFusedAttention(torch::Library* library) {
  library->impl("_scaled_dot_product_flash_attention", Flash);
  library->impl("_scaled_dot_product_flash_attention_backward", FlashBackward);
  library->impl("_scaled_dot_product_cudnn_attention", Cudnn);
  library->impl("_scaled_dot_product_cudnn_attention_backward", CudnnBackward);
  library->impl("_scaled_dot_product_efficient_attention", Efficient);
  library->impl("_scaled_dot_product_efficient_attention_backward", EfficientBackward);
  InstallChoice();
}

}  // namespace mccs::torch_on_host
