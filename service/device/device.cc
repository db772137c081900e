#include "service/device/device.h"

#include <array>
#include <cstddef>

namespace mccs {
namespace {

constexpr size_t kFinishedPerTurn = 64;

}  // namespace

bool DispatchFinished(Device& device) {
  std::array<Device::Finished, kFinishedPerTurn> finished;
  const Device::Polled polled = device.Poll(finished);
  for (size_t i = 0; i < polled.finished; ++i) PendingMemOps::OnFinished(finished[i]);
  return polled.worked || polled.finished > 0;
}

}  // namespace mccs
