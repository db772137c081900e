#include "controller/measurement/host_clocks.h"

#include <algorithm>

namespace mccs {
namespace {

bool IsATime(MonotonicNs time) { return time > 0 && time < kLatestTime; }

int64_t DriftIn(int64_t ns) {
  return static_cast<int64_t>(HostClocks::kDrift * static_cast<double>(ns));
}

}  // namespace

bool HostClocks::AddTrip(const std::string& host, const Trip& trip) {
  if (!IsATime(trip.sent) || !IsATime(trip.received_at) || !IsATime(trip.answered) ||
      !IsATime(trip.returned_at))
    return false;
  const int64_t whole = trip.returned_at - trip.sent;
  const int64_t rested = trip.answered - trip.received_at;
  if (whole < 0 || rested < 0 || whole + DriftIn(whole) < rested) return false;
  // The host's clock may have run faster than ours before the answer.
  const int64_t on_the_way = std::max<int64_t>(whole - rested, 0);
  const Sample sample = {.offset_ns = trip.received_at - trip.sent - (whole - rested) / 2,
                         .error_ns = on_the_way / 2 + DriftIn(whole),
                         .taken = trip.returned_at};
  Samples& samples = hosts_[host];
  if (Contradicts(sample, samples)) samples.count = 0;
  samples.kept[samples.count++ % kKeptTrips] = sample;
  return true;
}

bool HostClocks::Contradicts(const Sample& sample, const Samples& earlier) {
  const auto last = earlier.kept.begin() + static_cast<int>(std::min(earlier.count, kKeptTrips));
  return std::any_of(earlier.kept.begin(), last, [&](const Sample& each) {
    const int64_t apart =
        std::max(sample.offset_ns, each.offset_ns) - std::min(sample.offset_ns, each.offset_ns);
    const int64_t age = std::max<int64_t>(sample.taken - each.taken, 0);
    return apart > sample.error_ns + each.error_ns + DriftIn(age);
  });
}

std::optional<ClockReading> HostClocks::Read(const std::string& host, MonotonicNs now) const {
  const auto known = hosts_.find(host);
  if (known == hosts_.end()) return std::nullopt;
  const Samples& samples = known->second;
  std::optional<ClockReading> best;
  for (size_t i = 0; i < std::min(samples.count, kKeptTrips); ++i) {
    const Sample& sample = samples.kept[i];
    const int64_t error = sample.error_ns + DriftIn(std::max<int64_t>(now - sample.taken, 0));
    if (!best || error < best->error_ns) best = {sample.offset_ns, error};
  }
  return best;
}

}  // namespace mccs
