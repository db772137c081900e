// Random numbers for operators that run on the host: the state stays in CUDA's generator.
//
// A GPU's kernel takes (seed, offset) from the generator and advances the offset. The host version
// seeds a generator of its own with both: torch.cuda.manual_seed and saved states mean what they
// mean on a GPU. The numbers themselves are others than a GPU's.
#ifndef MCCS_EMULATION_TORCH_RANDOM_NUMBERS_H_
#define MCCS_EMULATION_TORCH_RANDOM_NUMBERS_H_

#include <ATen/core/dispatch/Dispatcher.h>

namespace mccs::torch_on_host {

// Where `op` draws random numbers, puts a generator of the host in the place of its argument.
// `arguments` are the call's, in the schema's order. Does nothing for other operators.
// Errors: c10::Error for a generator of another kind of device, and for an operator that draws
// without having a generator among its arguments.
void DrawOnHost(const c10::OperatorHandle& op, c10::Device device, c10::IValue* arguments);

}  // namespace mccs::torch_on_host

#endif  // MCCS_EMULATION_TORCH_RANDOM_NUMBERS_H_
