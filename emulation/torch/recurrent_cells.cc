// The cells of LSTM and GRU after their matrix products, forward and backward.
//
// Only the two functions of a cell use the workspace. It holds, side by side, the values that the
// backward function needs.
#include <ATen/ATen.h>

#include "emulation/torch/composed.h"

namespace mccs::torch_on_host {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

constexpr int64_t kFeatures = 1;  // gates are adjacent in this dimension

Tensor WithBias(const Tensor& gates, const OptionalTensor& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}

Tensor OrZero(const OptionalTensor& gradient, const Tensor& like) {
  return gradient && gradient->defined() ? *gradient : at::zeros_like(like);
}

Tensor SigmoidSlope(const Tensor& value) { return value * (1 - value); }
Tensor TanhSlope(const Tensor& value) { return 1 - value * value; }

std::tuple<Tensor, Tensor, Tensor> LstmCell(const Tensor& input_gates, const Tensor& hidden_gates,
                                            const Tensor& cell, const OptionalTensor& input_bias,
                                            const OptionalTensor& hidden_bias) {
  const auto gates =
      (WithBias(input_gates, input_bias) + WithBias(hidden_gates, hidden_bias)).chunk(4, kFeatures);
  const Tensor in = gates[0].sigmoid(), forget = gates[1].sigmoid();
  const Tensor candidate = gates[2].tanh(), out = gates[3].sigmoid();
  const Tensor next_cell = forget * cell + in * candidate;
  return {out * next_cell.tanh(), next_cell, at::cat({in, forget, candidate, out}, kFeatures)};
}

std::tuple<Tensor, Tensor, Tensor> LstmCellBackward(const OptionalTensor& grad_hidden,
                                                    const OptionalTensor& grad_next_cell,
                                                    const Tensor& cell, const Tensor& next_cell,
                                                    const Tensor& workspace, bool has_bias) {
  const auto gates = workspace.chunk(4, kFeatures);
  const Tensor &in = gates[0], &forget = gates[1], &candidate = gates[2], &out = gates[3];
  const Tensor squashed = next_cell.tanh();
  const Tensor hidden = OrZero(grad_hidden, next_cell);
  const Tensor into_cell = hidden * out * TanhSlope(squashed) + OrZero(grad_next_cell, next_cell);
  const Tensor grad_gates =
      at::cat({into_cell * candidate * SigmoidSlope(in), into_cell * cell * SigmoidSlope(forget),
               into_cell * in * TanhSlope(candidate), hidden * squashed * SigmoidSlope(out)},
              kFeatures);
  return {grad_gates, into_cell * forget, has_bias ? grad_gates.sum(0) : Tensor()};
}

std::tuple<Tensor, Tensor> GruCell(const Tensor& input_gates, const Tensor& hidden_gates,
                                   const Tensor& hidden, const OptionalTensor& input_bias,
                                   const OptionalTensor& hidden_bias) {
  const auto of_input = WithBias(input_gates, input_bias).chunk(3, kFeatures);
  const auto of_hidden = WithBias(hidden_gates, hidden_bias).chunk(3, kFeatures);
  const Tensor reset = (of_input[0] + of_hidden[0]).sigmoid();
  const Tensor update = (of_input[1] + of_hidden[1]).sigmoid();
  const Tensor fresh = (of_input[2] + reset * of_hidden[2]).tanh();
  return {fresh + update * (hidden - fresh),
          at::cat({reset, update, fresh, hidden, of_hidden[2]}, kFeatures)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> GruCellBackward(const Tensor& gradient,
                                                                   const Tensor& workspace,
                                                                   bool has_bias) {
  const auto saved = workspace.chunk(5, kFeatures);
  const Tensor &reset = saved[0], &update = saved[1], &fresh = saved[2], &hidden = saved[3];
  const Tensor into_update = gradient * (hidden - fresh) * SigmoidSlope(update);
  const Tensor into_fresh = gradient * (1 - update) * TanhSlope(fresh);
  const Tensor into_reset = into_fresh * saved[4] * SigmoidSlope(reset);
  const Tensor of_input = at::cat({into_reset, into_update, into_fresh}, kFeatures);
  const Tensor of_hidden = at::cat({into_reset, into_update, into_fresh * reset}, kFeatures);
  return {of_input, of_hidden, gradient * update, has_bias ? of_input.sum(0) : Tensor(),
          has_bias ? of_hidden.sum(0) : Tensor()};
}

}  // namespace

void RegisterRecurrentCells(torch::Library* library) {
  library->impl("_thnn_fused_lstm_cell", LstmCell);
  library->impl("_thnn_fused_lstm_cell_backward_impl", LstmCellBackward);
  library->impl("_thnn_fused_gru_cell", GruCell);
  library->impl("_thnn_fused_gru_cell_backward", GruCellBackward);
}

}  // namespace mccs::torch_on_host
