#include "base/random.h"

#include <sys/random.h>

#include "base/check.h"

namespace mccs {

void SystemRandom::Fill(std::span<std::byte> out) {
  while (!out.empty()) {
    ssize_t got = getrandom(out.data(), out.size(), 0);
    MCCS_CHECK(got > 0);  // Blocks until the kernel's pool is seeded, and cannot fail after that.
    out = out.subspan(static_cast<size_t>(got));
  }
}

void SeededRandom::Fill(std::span<std::byte> out) {
  for (std::byte& b : out) b = static_cast<std::byte>(engine_() & 0xff);
}

}  // namespace mccs
