#include "emulation/torch/random_numbers.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <c10/core/GeneratorImpl.h>

#include <mutex>

namespace mccs::torch_on_host {
namespace {

// CUDA's generators advance in multiples of four.
constexpr uint64_t kOffsetPerCall = 4;

// Mixes two numbers so that adjacent inputs give distant outputs (the finalizer of splitmix64).
uint64_t Mix(uint64_t seed, uint64_t offset) {
  uint64_t mixed = seed + (offset + 1) * 0x9e3779b97f4a7c15ull;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ull;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebull;
  return mixed ^ (mixed >> 31);
}

// Advances the state behind the handle `generator`.
at::Generator HostGeneratorFor(at::Generator generator) {
  uint64_t seed = 0;
  uint64_t offset = 0;
  {
    std::lock_guard lock(generator.mutex());
    seed = generator.current_seed();
    offset = generator.get_offset();
    generator.set_offset(offset + kOffsetPerCall);
  }
  return at::detail::createCPUGenerator(Mix(seed, offset));
}

}  // namespace

void UseHostGenerator(const c10::OperatorHandle& op, c10::Device device, c10::IValue* arguments) {
  if (!op.hasTag(at::Tag::nondeterministic_seeded)) return;
  const auto& declared = op.schema().arguments();
  for (size_t i = 0; i < declared.size(); ++i) {
    if (declared[i].name() != "generator") continue;
    const at::Generator generator = arguments[i].isNone()
                                        ? at::globalContext().defaultGenerator(device)
                                        : arguments[i].toGenerator();
    TORCH_CHECK(generator.device().is_cuda(),
                "Expected a 'cuda' device type for generator but found '",
                generator.device().type(), "'");
    arguments[i] = HostGeneratorFor(generator);
    return;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, op.schema().name(),
      " has no host version: it draws random numbers without a generator argument");
}

}  // namespace mccs::torch_on_host
