#include "base/check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace mccs {
namespace {

std::atomic<CheckFailureWriter> g_writer = nullptr;

}  // namespace

void SetCheckFailureWriter(CheckFailureWriter writer) { g_writer = writer; }

void AbortForFailedCheck(const char* file, int line, const char* condition) {
  char text[1024];
  std::snprintf(text, sizeof(text), "%s:%d: violated invariant: %s", file, line, condition);
  if (const CheckFailureWriter writer = g_writer) {
    writer(text);
  } else {
    std::fprintf(stderr, "%s\n", text);
  }
  std::abort();
}

}  // namespace mccs
