#include "tests/sim/random_liars.h"

#include "absl/strings/str_cat.h"

namespace mccs {

RandomLiars::RandomLiars(SimWorld& world, uint64_t seed, RandomCounts& counts)
    : world_(world), counts_(counts), dice_(~seed), expected_(dice_() % 4) {}

void RandomLiars::Act(const std::vector<int>& hosts) {
  if (expected_ > 0 && !hosts.empty() && dice_() % 8 == 0) {
    --expected_;
    liars_.emplace_back(world_, hosts, absl::StrCat("10.66.0.", liars_.size() + 1), dice_(),
                        counts_);
  }
  for (Liar& liar : liars_) {
    if (dice_() % 2 == 0) liar.Act();
  }
}

void RandomLiars::Lose(int host) {
  for (Liar& liar : liars_) liar.Lose(host);
}

void RandomLiars::Leave() {
  expected_ = 0;
  for (Liar& liar : liars_) liar.Leave();
}

std::string RandomLiars::WhatIsLeft() const {
  for (const Liar& liar : liars_) {
    const size_t streams = world_.network().half_closed_streams(liar.address());
    if (streams == 0) continue;
    return absl::StrCat("daemons still have ", streams, " connections with the hostile tenant at ",
                        liar.address(), ", which has left");
  }
  for (int h = 0; h < world_.hosts() && !liars_.empty(); ++h) {
    if (!world_.host(h).alive()) continue;
    const auto has = world_.host(h).daemon().counters()->Of(kLiarTenant);
    const auto communicators = has->forming.value() + has->active.value() + has->failed.value();
    if (communicators == 0 && has->sessions.value() == 0 && has->buffers.value() == 0 &&
        has->buffer_bytes.value() == 0) {
      continue;
    }
    return absl::StrCat("h", h, " still has ", communicators, " communicators, ",
                        has->sessions.value(), " processes and ", has->buffers.value(),
                        " buffers of hostile tenants that have left");
  }
  return "";
}

std::string RandomLiars::Wrong() const {
  for (const Liar& liar : liars_) {
    const std::string wrong = liar.Wrong();
    if (!wrong.empty()) return absl::StrCat("the hostile tenant at ", liar.address(), ": ", wrong);
  }
  return "";
}

}  // namespace mccs
