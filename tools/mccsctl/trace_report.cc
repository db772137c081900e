#include "tools/mccsctl/trace_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/table.h"
#include "base/units.h"

namespace mccs {
namespace {

struct HopKind {
  const char* name;
  const char* until;
  int64_t (trace::Operation::*end_ns)() const;
};

constexpr std::array<HopKind, 7> kHops = {{
    {"ranks", "all local ranks have posted the call", &trace::Operation::all_posted_ns},
    {"ready", "their streams have reached it, and it starts", &trace::Operation::started_ns},
    {"send", "a lane takes the first slice for another host", &trace::Operation::first_sent_ns},
    {"arrive", "the first slice of another host has landed", &trace::Operation::first_landed_ns},
    {"receive", "the last slice has landed", &trace::Operation::last_landed_ns},
    {"device", "the device has completed the plan", &trace::Operation::device_done_ns},
    {"done", "the done words are written: streams continue", &trace::Operation::done_ns},
}};

constexpr size_t kBarCells = 20;
constexpr double kMedian = 0.5;
constexpr double kTail = 0.99;

struct TimedHop {
  size_t kind;  // in kHops
  int64_t begin_ns;
  int64_t end_ns;
};

// In the order of time.
std::vector<TimedHop> TimedHopsOf(const trace::Operation& operation) {
  std::vector<TimedHop> hops;
  for (size_t kind = 0; kind < kHops.size(); ++kind) {
    const int64_t end = (operation.*kHops[kind].end_ns)();
    if (end != 0) hops.push_back({kind, 0, end});
  }
  std::ranges::stable_sort(hops, {}, &TimedHop::end_ns);
  int64_t begin = operation.first_posted_ns();
  for (TimedHop& hop : hops) hop.begin_ns = std::exchange(begin, hop.end_ns);
  return hops;
}

int64_t WholeTimeOf(const trace::Operation& operation) {
  return operation.done_ns() - operation.first_posted_ns();
}

std::string CallOf(const trace::Operation& operation) {
  return absl::StrCat(operation.kind(), " of ", FormatBytes(operation.bytes()));
}

// "all_reduce of 8 B", "all_reduce of 8 B and other calls".
std::string CallsOf(const trace::Host& host) {
  const std::string first = CallOf(host.operations(0));
  const bool same = std::ranges::all_of(
      host.operations(), [&](const trace::Operation& each) { return CallOf(each) == first; });
  return same ? first : absl::StrCat(first, " and other calls");
}

std::string Percent(double share) { return absl::StrCat(std::lround(share * 100), " %"); }

void AddRow(const std::string& name, const std::string& until, const std::vector<int64_t>& ns,
            double share, Table* table) {
  const auto cells = static_cast<size_t>(std::lround(share * kBarCells));
  const auto time = [](int64_t value) { return absl::StrCat(value, " ns"); };
  table->Row({name, time(ns.front()), time(Percentile(ns, kMedian)), time(Percentile(ns, kTail)),
              time(ns.back()), Percent(share), std::string(cells, '#'), until});
}

void RenderHost(const trace::Host& host, std::string* out) {
  if (host.operations().empty()) {
    absl::StrAppend(out, "\n", host.host(), ": ", host.error(), "\n");
    return;
  }
  absl::StrAppend(out, "\n", host.host(), ": ", host.operations_size(), " operations, #",
                  host.operations().begin()->number(), " to #",
                  host.operations().rbegin()->number(), ", ", CallsOf(host), "\n");
  if (!host.error().empty()) absl::StrAppend(out, kIndent, host.error(), "\n");
  Table table({{"HOP"},
               {"MIN", Align::kRight},
               {"MEDIAN", Align::kRight},
               {"P99", Align::kRight},
               {"MAX", Align::kRight},
               {"SHARE", Align::kRight},
               {""},
               {"UNTIL"}},
              kIndent);
  for (const Hop& hop : HopsOf(host)) AddRow(hop.name, hop.until, hop.ns, hop.share, &table);
  AddRow("whole", "from the first local rank's record to the done words", WholeTimesOf(host), 1,
         &table);
  out->append(table.Text());
}

// The hosts have one clock: all are on one machine, as in a lab. Clocks of different machines count
// from different boots, and differ by much more than the error.
bool ShareClock(const control::v1::TraceReply& reply) {
  return std::ranges::all_of(reply.hosts(), [](const trace::Host& host) {
    return host.operations().empty() || (host.has_clock_offset_ns() &&
                                         std::abs(host.clock_offset_ns()) <= host.clock_error_ns());
  });
}

// The trace's start on the clock of each host, in the order of reply.hosts().
std::vector<int64_t> OriginsOf(const control::v1::TraceReply& reply) {
  const bool shared = ShareClock(reply);
  const auto offset_of = [shared](const trace::Host& host) {
    return shared ? 0 : host.clock_offset_ns();
  };
  std::vector<int64_t> origins;
  int64_t earliest = std::numeric_limits<int64_t>::max();  // on the controller's clock
  bool comparable = true;
  for (const trace::Host& host : reply.hosts()) {
    origins.push_back(host.operations().empty() ? 0 : host.operations(0).first_posted_ns());
    if (host.operations().empty()) continue;
    comparable &= host.has_clock_offset_ns();
    earliest = std::min(earliest, origins.back() - offset_of(host));
  }
  if (!comparable) return origins;
  for (int h = 0; h < reply.hosts_size(); ++h)
    origins[static_cast<size_t>(h)] = earliest + offset_of(reply.hosts(h));
  return origins;
}

nlohmann::ordered_json Event(const std::string& name, int process, int64_t begin_ns,
                             int64_t end_ns) {
  constexpr double kNsPerUnit = 1000;  // the format's unit is 1 µs
  return {{"name", name},
          {"ph", "X"},
          {"pid", process},
          {"tid", 1},
          {"ts", static_cast<double>(begin_ns) / kNsPerUnit},
          {"dur", static_cast<double>(end_ns - begin_ns) / kNsPerUnit}};
}

}  // namespace

std::vector<Hop> HopsOf(const trace::Host& host) {
  std::array<Hop, kHops.size()> all;
  for (size_t kind = 0; kind < kHops.size(); ++kind)
    all[kind] = {.name = kHops[kind].name, .until = kHops[kind].until, .ns = {}};
  double whole = 0;
  for (const trace::Operation& operation : host.operations()) {
    for (const TimedHop& hop : TimedHopsOf(operation))
      all[hop.kind].ns.push_back(hop.end_ns - hop.begin_ns);
    whole += static_cast<double>(WholeTimeOf(operation));
  }
  std::vector<Hop> hops;
  for (Hop& hop : all) {
    if (hop.ns.empty()) continue;
    std::ranges::sort(hop.ns);
    const double sum = std::accumulate(hop.ns.begin(), hop.ns.end(), 0.0);
    hop.share = whole > 0 ? sum / whole : 0;
    hops.push_back(std::move(hop));
  }
  return hops;
}

std::vector<int64_t> WholeTimesOf(const trace::Host& host) {
  std::vector<int64_t> times;
  for (const trace::Operation& operation : host.operations())
    times.push_back(WholeTimeOf(operation));
  std::ranges::sort(times);
  return times;
}

int64_t Percentile(const std::vector<int64_t>& ascending, double part) {
  const auto rank = static_cast<size_t>(std::ceil(part * static_cast<double>(ascending.size())));
  return ascending[std::max<size_t>(rank, 1) - 1];
}

std::string RenderTrace(const control::v1::TraceReply& reply) {
  std::string out = absl::StrCat("Communicator ", reply.id(), "\n");
  for (const trace::Host& host : reply.hosts()) RenderHost(host, &out);
  return out;
}

std::string RenderChromeTrace(const control::v1::TraceReply& reply) {
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  const std::vector<int64_t> origins = OriginsOf(reply);
  const bool shared_clock = ShareClock(reply);
  for (int h = 0; h < reply.hosts_size(); ++h) {
    const trace::Host& host = reply.hosts(h);
    const int64_t origin = origins[static_cast<size_t>(h)];
    const std::string clock = host.has_clock_offset_ns() && !shared_clock
                                  ? absl::StrCat(" (clock ± ", host.clock_error_ns(), " ns)")
                                  : "";
    events.push_back({{"name", "process_name"},
                      {"ph", "M"},
                      {"pid", h},
                      {"args", {{"name", absl::StrCat(host.host(), clock)}}}});
    for (const trace::Operation& operation : host.operations()) {
      const std::string name = absl::StrCat("#", operation.number(), " ", CallOf(operation));
      events.push_back(
          Event(name, h, operation.first_posted_ns() - origin, operation.done_ns() - origin));
      for (const TimedHop& hop : TimedHopsOf(operation)) {
        if (hop.begin_ns == hop.end_ns) continue;
        events.push_back(
            Event(kHops[hop.kind].name, h, hop.begin_ns - origin, hop.end_ns - origin));
        events.back()["args"] = {{"until", kHops[hop.kind].until}};
      }
    }
  }
  const nlohmann::ordered_json trace = {{"displayTimeUnit", "ns"}, {"traceEvents", events}};
  return trace.dump() + "\n";
}

std::vector<std::string> HostsWithoutOperations(const control::v1::TraceReply& reply) {
  std::vector<std::string> lines;
  for (const trace::Host& host : reply.hosts()) {
    if (host.operations().empty())
      lines.push_back(absl::StrCat("host ", host.host(), ": ", host.error()));
  }
  return lines;
}

}  // namespace mccs
