#include "shim/buffers/memory_closer.h"

#include <deque>
#include <utility>

#include "shim/cuda/virtual_mapping.h"

namespace mccs::shim {
namespace {

void CloseNow(const DriverApi& driver, const MemoryCloser::Opened& memory) {
  const ScopedContext context(driver, memory.context);
  const RelaxedCapture relaxed(driver);  // captures of other threads go on
  if (memory.ipc != 0) driver.IpcCloseMemHandle(memory.ipc);
  if (memory.mapped.bytes > 0) (void)UnmapAllocation(driver, memory.mapped);
}

}  // namespace

MemoryCloser::MemoryCloser(const DriverApi& driver)
    : thread_([&driver](std::deque<Opened> opened) {
        for (Opened& memory : opened) {
          CloseNow(driver, memory);
          memory.host.reset();
        }
      }) {}

void MemoryCloser::Close(Opened memory) {
  if (memory.empty()) return;
  thread_.Add(std::move(memory));
  thread_.Await(kLimit);
}

}  // namespace mccs::shim
