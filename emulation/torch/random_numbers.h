// Random numbers for operators that run on the host: the state stays in CUDA's generator.
//
// A GPU's kernel takes (seed, offset) from the generator and advances the offset. The host version
// seeds its own generator with both, so torch.cuda.manual_seed and saved states work as on a GPU.
// The numbers themselves differ from a GPU's.
#ifndef MCCS_EMULATION_TORCH_RANDOM_NUMBERS_H_
#define MCCS_EMULATION_TORCH_RANDOM_NUMBERS_H_

#include <ATen/core/dispatch/Dispatcher.h>

namespace mccs::torch_on_host {

// If `op` draws random numbers, replaces its generator argument by a host generator. `arguments`:
// the call's, in the schema's order. Does nothing for other operators.
// Errors: c10::Error for a generator that is not on a CUDA device, and for an operator that draws
// random numbers without a generator argument.
void UseHostGenerator(const c10::OperatorHandle& op, c10::Device device, c10::IValue* arguments);

}  // namespace mccs::torch_on_host

#endif  // MCCS_EMULATION_TORCH_RANDOM_NUMBERS_H_
