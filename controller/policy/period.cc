#include "controller/policy/period.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/units.h"

namespace mccs {
namespace {

// Older bursts do not describe the current behaviour.
constexpr size_t kRecentBursts = 17;
// Minimal ratio of pauses between bursts to pauses within them.
constexpr int64_t kPauseRatio = 2;
// Maximal relative difference from the median for a pause or distance to count as alike. Maximal
// relative deviation of a burst's length.
constexpr double kAlike = 0.25;
constexpr int64_t kBurstAlike = 5;
// Up to this number all must be alike; above it, three of four.
constexpr size_t kFew = 8;
constexpr size_t kOneIn = 4;
// Maximal number of periods in one distance, if it is close to a multiple: bursts are missing.
constexpr int64_t kMostPeriods = 3;
constexpr double kAlikeWithMissing = 0.1;
// Number of last distances that define the current period for older ones.
constexpr size_t kPeriodSamples = 5;
constexpr double kSamePeriod = 0.05;
// The last bursts, which predict the next one best.
constexpr size_t kLast = 3;
constexpr double kLargestError = 1e18;  // in ns; sums of such values do not overflow

int64_t Median(std::vector<int64_t> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Number of periods in a distance.
int64_t PeriodsIn(int64_t distance, int64_t period) {
  return std::clamp<int64_t>((distance + period / 2) / period, 1, kMostPeriods);
}

struct Joined {
  std::vector<WorkSpan> bursts;
  int64_t longest_within = 0;  // longest pause within a burst
};

Joined JoinOver(std::span<const WorkSpan> spans, int64_t shortest_pause) {
  Joined joined;
  std::vector<WorkSpan>& bursts = joined.bursts;
  for (const WorkSpan& span : spans) {
    const int64_t pause = bursts.empty() ? shortest_pause : span.begin - bursts.back().end;
    if (pause < shortest_pause) {
      bursts.back().end = span.end;
      joined.longest_within = std::max(joined.longest_within, pause);
    } else {
      bursts.push_back(span);
    }
  }
  if (bursts.size() > kRecentBursts) bursts.erase(bursts.begin(), bursts.end() - kRecentBursts);
  return joined;
}

// Statistics of bursts.
class Bursts {
 public:
  // REQUIRES: at least kLeastBursts bursts.
  Bursts(const Joined& joined, bool ongoing)
      : onset_(joined.bursts.back().begin), longest_within_(joined.longest_within) {
    const std::vector<WorkSpan>& bursts = joined.bursts;
    for (size_t i = 0; i < bursts.size(); ++i) {
      if (i + 1 < bursts.size() || !ongoing) busy_.push_back(bursts[i].end - bursts[i].begin);
      if (i == 0) continue;
      pauses_.push_back(bursts[i].begin - bursts[i - 1].end);
      distances_.push_back(bursts[i].begin - bursts[i - 1].begin);
    }
  }

  absl::Status CheckRegular() const {
    const int64_t pause = Median(pauses_), distance = Median(distances_), busy = Median(busy_);
    size_t like_pause = 0, like_distance = 0;
    bool lately = false;
    for (size_t i = 0; i < pauses_.size(); ++i) {
      const bool by_burst = busy_[i] <= kBurstAlike * busy && kBurstAlike * busy_[i] >= busy;
      const bool by_pause = by_burst && static_cast<double>(std::abs(pauses_[i] - pause)) <=
                                            kAlike * static_cast<double>(pause);
      const double part = PeriodsIn(distances_[i], distance) == 1 ? kAlike : kAlikeWithMissing;
      const bool by_distance = static_cast<double>(OffBy(distances_[i], distance)) <=
                               part * static_cast<double>(distance);
      like_pause += by_pause ? 1 : 0;
      like_distance += by_distance ? 1 : 0;
      if (i + 2 >= pauses_.size()) lately |= by_pause || by_distance;
    }
    const size_t unlike = pauses_.size() < kFew ? 0 : pauses_.size() / kOneIn;
    const bool apart = kPauseRatio * longest_within_ <= pause;
    if (apart && lately && std::max(like_pause, like_distance) + unlike >= pauses_.size())
      return absl::OkStatus();
    const auto [least, longest] = std::minmax_element(distances_.begin(), distances_.end());
    return absl::NotFoundError(absl::StrCat("no regular period: the last ", distances_.size() + 1,
                                            " bursts started ", FormatMilliseconds(*least), " to ",
                                            FormatMilliseconds(*longest), " apart"));
  }

  Period Estimate(int64_t horizon_ns) const {
    const std::vector<int64_t> last(distances_.end() - kLast, distances_.end());
    const int64_t rough = Median(
        {distances_.end() - static_cast<int64_t>(std::min(kPeriodSamples, distances_.size())),
         distances_.end()});
    // Difference between successive distances: random if the job does not change; a change of the
    // job appears once.
    std::vector<int64_t> steps;
    for (size_t i = 1; i < distances_.size(); ++i) {
      steps.push_back(std::abs(distances_[i] / PeriodsIn(distances_[i], rough) -
                               distances_[i - 1] / PeriodsIn(distances_[i - 1], rough)));
    }
    // Distances similar to the last ones make the period more exact.
    const double like =
        std::max(kSamePeriod * static_cast<double>(rough), 3 * static_cast<double>(Median(steps)));
    int64_t sum = 0, periods = 0;
    std::vector<int64_t> same;
    int outliers = 0;  // successive outliers: one may be chance, two mean another period
    for (auto it = distances_.rbegin(); it != distances_.rend() && outliers < 2; ++it) {
      ++outliers;
      if (static_cast<double>(OffBy(*it, rough)) > like) continue;
      outliers = 0;
      sum += *it;
      periods += PeriodsIn(*it, rough);
      same.push_back(*it);
    }
    Period period = {.period_ns = periods > 0 ? sum / periods : rough, .onset = onset_};
    period.busy_ns = *std::max_element(busy_.end() - kLast, busy_.end());
    // Estimated variation of one distance: the larger of the last ones, and 2.5 times the median.
    int64_t spread = 0;
    for (const int64_t distance : last)
      spread = std::max(spread, OffBy(distance, period.period_ns));
    std::vector<int64_t> off;
    for (const int64_t distance : same) off.push_back(OffBy(distance, period.period_ns));
    if (!off.empty()) spread = std::max(spread, 5 * Median(off) / 2);
    // Random errors grow with the square root of the number of periods, errors of the period
    // linearly.
    const double ahead =
        std::ceil(static_cast<double>(horizon_ns) / static_cast<double>(period.period_ns));
    const double grown =
        std::sqrt(ahead) + ahead / static_cast<double>(std::max<int64_t>(periods, 1));
    period.error_ns = static_cast<int64_t>(
        std::min(static_cast<double>(spread) * std::max(grown, 1.0), kLargestError));
    return period;
  }

 private:
  static int64_t OffBy(int64_t distance, int64_t period) {
    return std::abs(distance - PeriodsIn(distance, period) * period);
  }

  const MonotonicNs onset_;
  const int64_t longest_within_;    // longest pause within a burst
  std::vector<int64_t> busy_;       // of finished bursts
  std::vector<int64_t> pauses_;     // between successive bursts
  std::vector<int64_t> distances_;  // from start to start
};

}  // namespace

std::vector<WorkSpan> Union(std::vector<WorkSpan> spans) {
  std::sort(spans.begin(), spans.end(),
            [](const WorkSpan& a, const WorkSpan& b) { return a.begin < b.begin; });
  std::vector<WorkSpan> joined;
  for (const WorkSpan& span : spans) {
    if (!joined.empty() && span.begin <= joined.back().end) {
      joined.back().end = std::max(joined.back().end, span.end);
    } else {
      joined.push_back(span);
    }
  }
  return joined;
}

absl::StatusOr<Period> FindPeriod(std::span<const WorkSpan> spans, const PeriodOptions& options) {
  int64_t longest = 0;
  for (size_t i = 1; i < spans.size(); ++i) {
    longest = std::max(longest, spans[i].begin - spans[i - 1].end);
  }
  absl::Status why = absl::NotFoundError("too few bursts with a pause between them");
  bool tried = false;
  for (int64_t pause = longest / 2; pause >= kLeastPauseNs / 2; pause /= 2) {
    const Joined joined = JoinOver(spans, pause);
    if (joined.bursts.size() < kLeastBursts) continue;
    const Bursts bursts(joined, options.ongoing);
    const absl::Status regular = bursts.CheckRegular();
    if (regular.ok()) return bursts.Estimate(options.horizon_ns);
    if (!tried) why = regular;
    tried = true;
  }
  return why;
}

}  // namespace mccs
