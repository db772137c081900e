#include "shim/buffers/memory_closer.h"

#include <deque>

#include "shim/cuda/virtual_mapping.h"

namespace mccs::shim {
namespace {

void CloseNow(const DriverApi& driver, const MemoryCloser::Opened& memory) {
  const ScopedContext context(driver, memory.context);
  const RelaxedCapture relaxed(driver);  // captures of other threads go on
  if (memory.ipc != 0) driver.IpcCloseMemHandle(memory.ipc);
  if (memory.host != nullptr) driver.MemHostUnregister(memory.host->data());
  if (memory.mapped.bytes > 0) (void)UnmapAllocation(driver, memory.mapped);
}

}  // namespace

MemoryCloser::MemoryCloser(const DriverApi& driver)
    : thread_([&driver](const std::deque<Opened>& opened) {
        for (const Opened& memory : opened) CloseNow(driver, memory);
      }) {}

void MemoryCloser::Close(const Opened& memory) {
  if (memory.empty()) return;
  thread_.Add(memory);
  thread_.Await(kLimit);
}

}  // namespace mccs::shim
