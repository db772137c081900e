// Helpers that the tests of the stream engine share.
#ifndef MCCS_TESTS_UNIT_EMULATION_ENGINE_FIXTURE_H_
#define MCCS_TESTS_UNIT_EMULATION_ENGINE_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "emulation/core/engine.h"
#include "proto/fence_page.h"
#include "tests/unit/eventually.h"

namespace mccs::emulation {

// Engines are never destroyed, since their threads never end; a static vector keeps them reachable.
inline Engine& NewEngine(int connections, int gpus = 1) {
  static std::mutex mutex;
  static auto* const engines = new std::vector<std::unique_ptr<Engine>>;
  std::lock_guard lock(mutex);
  engines->push_back(std::make_unique<Engine>(gpus, connections));
  return *engines->back();
}

inline Word PlainWord(uint64_t* word) { return {.address = word, .wide = true, .fence = false}; }
inline Word FenceWord(wire::FenceLine* line) {
  return {.address = line, .wide = true, .fence = true};
}

inline WaitWord AtLeast(Word word, uint64_t value) {
  return {.word = word, .value = value, .comparison = Comparison::kGreaterOrEqual};
}

inline void Store(uint64_t& word, uint64_t value) { std::atomic_ref(word).store(value); }
inline uint64_t Load(uint64_t& word) { return std::atomic_ref(word).load(); }

inline void Synchronize(Engine& engine, const std::shared_ptr<Stream>& stream) {
  engine.Wait(engine.PendingOf(stream));
}

}  // namespace mccs::emulation

#endif  // MCCS_TESTS_UNIT_EMULATION_ENGINE_FIXTURE_H_
