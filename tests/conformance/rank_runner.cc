#include "conformance/rank_runner.h"

#include <algorithm>
#include <cstring>

#include "cuda_runtime.h"

namespace conformance {
namespace {

// After the deadline, when every bounded wait has ended.
constexpr auto kGrace = std::chrono::seconds(3);

}  // namespace

void RankRunner::Run(const JobPlace& place) {
  cudaSetDevice(self_.device);
  ControlLink link(place, self_.rank);
  link.BeginTest(0);
  std::string trouble;
  const std::string own(reinterpret_cast<const char*>(&self_), sizeof(self_));
  auto parts = link.Exchange(own, self_.size, Clock::now() + limit_, &trouble);
  if (!parts) return;  // the coordinator reports the reason
  for (const std::string& part : *parts) {
    std::memcpy(&all_ranks_.emplace_back(), part.data(), sizeof(Self));
  }
  for (size_t i = 0; i < tests_.size(); ++i) {
    link.BeginTest(i);
    RunOne(tests_[i], &link);
  }
  if (comms_.world() != nullptr) ncclCommDestroy(comms_.world());
}

void RankRunner::RunOne(const TestCase& test, ControlLink* link) {
  const std::vector<Self> participants = Participants(test.who);
  const bool takes_part = std::any_of(participants.begin(), participants.end(),
                                      [&](const Self& one) { return one.rank == self_.rank; });
  Outcome outcome = Outcome::kIdle;
  std::string text;
  if (takes_part) {
    const auto deadline = Clock::now() + limit_;
    late_at_ = (deadline + kGrace).time_since_epoch().count();
    Test running(self_, participants, link, &comms_, deadline);
    const std::string reason = SkipReason(test, participants);
    if (reason.empty()) {
      test.run(running);
    } else {
      running.Skip(reason);
    }
    outcome = running.outcome();
    text = running.text();
  }
  late_at_ = 0;
  Outcome of_all = Outcome::kFailed;
  const bool goes_on = link->Finish(outcome, text, &of_all);
  // The test may have damaged the world communicator; the next test gets a new one.
  if (!goes_on || of_all == Outcome::kFailed) comms_.AbortAll(/*with_world=*/true);
}

std::string RankRunner::SkipReason(const TestCase& test,
                                   const std::vector<Self>& participants) const {
  if (test.beyond_nccl && !self_.beyond_nccl) {
    return "NCCL leaves it undefined; run it with --beyond-nccl on";
  }
  if (static_cast<int>(participants.size()) < test.min_ranks) {
    return "needs " + std::to_string(test.min_ranks) + " ranks";
  }
  const bool enough_devices =
      std::all_of(participants.begin(), participants.end(),
                  [&](const Self& one) { return one.visible_devices >= test.min_devices; });
  if (!enough_devices) {
    return "needs " + std::to_string(test.min_devices) + " GPUs visible to one process";
  }
  return "";
}

std::vector<Self> RankRunner::Participants(ParticipantSet who) const {
  if (who == ParticipantSet::kEveryRank) return all_ranks_;
  std::vector<Self> leaders;
  std::copy_if(all_ranks_.begin(), all_ranks_.end(), std::back_inserter(leaders),
               [](const Self& one) { return one.is_host_leader; });
  return leaders;
}

void RankRunner::AbortIfLate() {
  const int64_t late_at = late_at_;
  if (late_at == 0 || Clock::now().time_since_epoch().count() < late_at) return;
  comms_.AbortAll(/*with_world=*/true);
}

}  // namespace conformance
