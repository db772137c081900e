#include "tools/mccsctl/work_rates.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "proto/report_interval.h"

namespace mccs {
namespace {

struct Rates {
  double operations = 0;
  double alg = 0;
  double bus = 0;

  void Add(const Rates& other) {
    operations += other.operations;
    alg += other.alg;
    bus += other.bus;
  }
};

// Factors from count × size bytes of a call to its algbw and busbw bytes.
struct BandwidthFactors {
  double alg = 0;
  double bus = 0;
  bool message = false;  // hosts' counts add up; those of a collective are the same on all hosts
};

BandwidthFactors BandwidthFactorsOf(const std::string& kind, int ranks) {
  const double n = std::max(ranks, 1);
  if (kind == "all_reduce") return {1, 2 * (n - 1) / n};
  if (kind == "all_gather" || kind == "reduce_scatter" || kind == "all_to_all" ||
      kind == "gather" || kind == "scatter") {
    return {n, n - 1};
  }
  if (kind == "broadcast" || kind == "reduce") return {1, 1};
  if (kind == "send" || kind == "put") return {1, 1, /*message=*/true};
  if (kind == "signal") return {0, 0, /*message=*/true};
  return {0, 0, /*message=*/true};  // receiving ends are not counted
}

bool Counts(const std::string& kind) { return kind != "recv" && kind != "wait_signal"; }

using WorkByKind = std::map<std::string, agent::v1::KindWork>;

WorkByKind ByKind(const control::v1::HostWork& work) {
  WorkByKind kinds;
  for (const agent::v1::KindWork& kind : work.work()) kinds[kind.kind()] = kind;
  return kinds;
}

// How two samples were taken.
struct Sampling {
  double seconds = 0;  // between them
  double report_every = 0;
};

Sampling SamplingOf(double seconds, int64_t report_every_ns) {
  return {seconds, static_cast<double>(ReportIntervalFrom(report_every_ns)) / kNsPerSec};
}

// Time between two reports on the host's clock.
double SecondsBetween(int64_t before_ns, int64_t after_ns, const Sampling& sampling) {
  const double measured = static_cast<double>(after_ns - before_ns) / kNsPerSec;
  // The earlier report may predate the sample by a long idle time: all work is newer than the
  // sample.
  return measured > sampling.seconds + 2 * sampling.report_every ? sampling.seconds : measured;
}

// By kind.
std::map<std::string, Rates> ComputeRates(const control::v1::HostWork& before,
                                          const control::v1::HostWork& after, int ranks,
                                          const Sampling& sampling) {
  std::map<std::string, Rates> rates;
  const double t = SecondsBetween(before.measured_ns(), after.measured_ns(), sampling);
  if (t <= 0) return rates;
  const WorkByKind old = ByKind(before);
  for (const auto& [name, work] : ByKind(after)) {
    if (!Counts(name)) continue;
    const auto known = old.find(name);
    const agent::v1::KindWork none;
    const agent::v1::KindWork& begun = known != old.end() ? known->second : none;
    // A restarted daemon counts from 0.
    if (work.operations() < begun.operations() || work.bytes() < begun.bytes()) continue;
    const double bytes = static_cast<double>(work.bytes() - begun.bytes()) / t;
    const BandwidthFactors worth = BandwidthFactorsOf(name, ranks);
    rates[name] = {static_cast<double>(work.operations() - begun.operations()) / t,
                   bytes * worth.alg, bytes * worth.bus};
  }
  return rates;
}

// All hosts report the same collectives: take the one that is ahead. Messages add up.
Rates Sum(const control::v1::CommunicatorWork& before, const control::v1::CommunicatorWork& after,
          const Sampling& sampling) {
  std::map<std::string, Rates> collectives;
  Rates sum;
  for (const control::v1::HostWork& host : after.hosts()) {
    const auto known = std::find_if(before.hosts().begin(), before.hosts().end(),
                                    [&](const auto& other) { return other.host() == host.host(); });
    if (known == before.hosts().end()) continue;
    for (const auto& [kind, rates] : ComputeRates(*known, host, after.ranks(), sampling)) {
      if (BandwidthFactorsOf(kind, after.ranks()).message) {
        sum.Add(rates);
      } else if (rates.operations > collectives[kind].operations) {
        collectives[kind] = rates;
      }
    }
  }
  for (const auto& [kind, rates] : collectives) sum.Add(rates);
  return sum;
}

}  // namespace

double SecondsToWait(double asked, int64_t report_every_ns) {
  const int64_t longest_ns = ReportIntervalFrom(report_every_ns) + kReportDelayNs;
  return std::max(asked, static_cast<double>(longest_ns) / kNsPerSec);
}

control::v1::TopRates ComputeRates(const control::v1::ListWorkReply& before,
                                   const control::v1::ListWorkReply& after, double seconds) {
  std::map<std::string, const control::v1::CommunicatorWork*> known;
  for (const control::v1::CommunicatorWork& work : before.communicators()) known[work.id()] = &work;
  const Sampling sampling = SamplingOf(seconds, after.report_every_ns());
  control::v1::TopRates top;
  top.set_seconds(seconds);
  for (const control::v1::CommunicatorWork& work : after.communicators()) {
    control::v1::CommunicatorRates* out = top.add_communicators();
    out->set_id(work.id());
    out->set_name(work.name());
    out->set_tenant(work.tenant());
    out->set_state(work.state());
    out->set_ranks(work.ranks());
    *out->mutable_links() = work.links();
    *out->mutable_pairs() = work.pairs();
    const auto old = known.find(work.id());
    if (old == known.end()) continue;
    const Rates rates = Sum(*old->second, work, sampling);
    out->set_operations_per_second(rates.operations);
    out->set_algbw(rates.alg);
    out->set_busbw(rates.bus);
  }
  std::stable_sort(top.mutable_communicators()->begin(), top.mutable_communicators()->end(),
                   [](const auto& a, const auto& b) { return a.busbw() > b.busbw(); });
  return top;
}

control::v1::Explanation WithRates(const control::v1::Explanation& before,
                                   control::v1::Explanation after, double seconds) {
  std::map<std::tuple<int, std::string, std::string>, const control::v1::ExplainedFlow*> known;
  for (const control::v1::ExplainedFlow& flow : before.flows())
    known[{flow.channel(), flow.from(), flow.to()}] = &flow;
  const Sampling sampling = SamplingOf(seconds, after.report_every_ns());
  after.set_seconds(seconds);
  for (control::v1::ExplainedFlow& flow : *after.mutable_flows()) {
    const auto found = known.find({flow.channel(), flow.from(), flow.to()});
    // A restarted daemon counts from 0.
    const bool counts_on =
        found != known.end() && found->second->payload_bytes() <= flow.payload_bytes();
    const control::v1::ExplainedFlow& begun = counts_on ? *found->second : flow;
    const double t = SecondsBetween(begun.measured_ns(), flow.measured_ns(), sampling);
    const auto sent = static_cast<double>(flow.payload_bytes() - begun.payload_bytes());
    flow.set_measured_bps(t > 0 ? 8 * sent / t : 0);
    flow.set_waited_for_credit_ns(flow.waited_for_credit_ns() - begun.waited_for_credit_ns());
    flow.set_waited_for_rate_ns(flow.waited_for_rate_ns() - begun.waited_for_rate_ns());
    flow.set_waited_for_connection_ns(flow.waited_for_connection_ns() -
                                      begun.waited_for_connection_ns());
  }
  return after;
}

}  // namespace mccs
