#include "emulation/torch/registration.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/op_registration/op_registration.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "absl/algorithm/container.h"
#include "emulation/torch/composed.h"
#include "emulation/torch/host_operator.h"
#include "emulation/torch/stream_copy.h"

namespace mccs::torch_on_host {
namespace {

using c10::Dispatcher;
using c10::DispatchKey;
using c10::OperatorHandle;
using torch::jit::Stack;

// These only arrange memory, and their CUDA versions do not access it.
constexpr std::string_view kArrangeMemory[] = {"aten::empty",
                                               "aten::empty_strided",
                                               "aten::_efficientzerotensor",
                                               "aten::resize_",
                                               "aten::set_",
                                               "aten::is_set_to",
                                               "aten::record_stream",
                                               "aten::_cudnn_init_dropout_state"};

// These have one version for all devices, which bypasses the dispatcher to find the device's
// kernel.
constexpr std::string_view kBypassDispatcher[] = {
    "aten::copy_", "aten::convolution", "aten::_convolution", "aten::convolution_backward"};

constexpr DispatchKey kHostKeys[] = {DispatchKey::CPU, DispatchKey::CompositeExplicitAutograd,
                                     DispatchKey::CompositeExplicitAutogradNonFunctional,
                                     DispatchKey::CompositeImplicitAutograd};

bool MakesView(const c10::FunctionSchema& schema) {
  const auto writes = [](const c10::Argument& argument) {
    return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
  };
  const auto aliases = [](const c10::Argument& argument) {
    return argument.alias_info() != nullptr;
  };
  const auto& arguments = schema.arguments();
  const auto& returns = schema.returns();
  return std::any_of(returns.begin(), returns.end(), aliases) &&
         std::none_of(returns.begin(), returns.end(), writes) &&
         std::none_of(arguments.begin(), arguments.end(), writes);
}

bool RunsOnHost(const OperatorHandle& op) {
  const std::string& name = op.schema().name();
  if (!name.starts_with("aten::") || absl::c_linear_search(kArrangeMemory, name)) return false;
  if (absl::c_linear_search(kBypassDispatcher, name)) return true;
  if (MakesView(op.schema())) return false;
  const auto has = [&op](DispatchKey key) { return op.hasKernelForDispatchKey(key); };
  if (has(DispatchKey::CPU)) return true;
  return has(DispatchKey::CUDA) && std::any_of(std::begin(kHostKeys), std::end(kHostKeys), has);
}

// Widens the input: the host's softmax does not do so itself, unlike CUDA's.
void SoftmaxOnHost(const OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  c10::IValue* const arguments = stack->data() + stack->size() - op.schema().arguments().size();
  if (arguments[2].toBool()) {
    arguments[0] = arguments[0].toTensor().to(c10::kFloat);
    arguments[2] = false;
  }
  RunOnHost(op, keys, stack);
}

// Narrows the gradient: the host's version does not do so itself.
void SoftmaxBackwardOnHost(const OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  c10::IValue* const arguments = stack->data() + stack->size() - op.schema().arguments().size();
  const auto narrow = static_cast<c10::ScalarType>(arguments[3].toInt());
  arguments[3] = static_cast<int64_t>(arguments[0].toTensor().scalar_type());
  RunOnHost(op, keys, stack);
  stack->back() = stack->back().toTensor().to(narrow);
}

// Selects the step-by-step computation of attention.
void ChooseMathAttention(const OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  constexpr int64_t kMath = 0;  // of sdp::SDPBackend
  torch::jit::drop(*stack, op.schema().arguments().size());
  torch::jit::push(*stack, kMath);
}

c10::KernelFunction KernelFor(const OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  const bool is_plain = name.overload_name.empty();
  if (name.name == "aten::_fused_sdp_choice") {
    return c10::KernelFunction::makeFromBoxedFunction<&ChooseMathAttention>();
  }
  if (name.name == "aten::_softmax" || name.name == "aten::_log_softmax") {
    return c10::KernelFunction::makeFromBoxedFunction<&SoftmaxOnHost>();
  }
  if (is_plain && (name.name == "aten::_softmax_backward_data" ||
                   name.name == "aten::_log_softmax_backward_data")) {
    return c10::KernelFunction::makeFromBoxedFunction<&SoftmaxBackwardOnHost>();
  }
  if (name.name == "aten::copy_" && is_plain) {
    return c10::KernelFunction::makeFromBoxedFunction<&CopyOnStream>();
  }
  return c10::KernelFunction::makeFromBoxedFunction<&RunOnHost>();
}

// PyTorch warns about each operator whose kernel is replaced.
class SuppressWarnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

// Turns off features that bypass the dispatcher and launch CUDA kernels.
void SwitchOffFusedKernels() {
  at::Context& context = at::globalContext();
  context.setUserEnabledCuDNN(false);
  context.setSDPUseFlash(false);
  context.setSDPUseMemEfficient(false);
  context.setSDPUseCuDNN(false);
}

}  // namespace

void RedirectOperators() {
  SuppressWarnings silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  // Never undone: programs may use tensors until the process ends.
  static auto* const registrations = new std::vector<c10::RegistrationHandleRAII>;
  Dispatcher& dispatcher = Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const std::optional<OperatorHandle> op = dispatcher.findSchema(name);
    if (!op || !RunsOnHost(*op)) continue;
    registrations->push_back(dispatcher.registerImpl(name, DispatchKey::CUDA, KernelFor(*op),
                                                     std::nullopt, nullptr, "mccs_torch_on_host"));
  }
  static auto* const composed =
      new torch::Library(torch::Library::IMPL, "aten", DispatchKey::CUDA, __FILE__, __LINE__);
  RegisterDropout(composed);
  RegisterFusedAttention(composed);
  RegisterRecurrentCells(composed);
  RegisterRmsNormBackward(composed);
  RegisterSyncBatchNorm(composed);
  SwitchOffFusedKernels();
}

}  // namespace mccs::torch_on_host
