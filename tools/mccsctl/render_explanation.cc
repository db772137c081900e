#include "tools/mccsctl/render_explanation.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/units.h"
#include "tools/mccsctl/table.h"

namespace mccs {
namespace {

// Waits below this share of the interval are not shown.
constexpr double kMinShare = 0.01;

// "4.7 Gbit/s", rounded to two decimals.
std::string FormatRate(double bits_per_second) {
  double scale = 1;
  while (bits_per_second / scale >= 1000) scale *= 1000;
  return FormatBitRate(std::round(bits_per_second / scale * 100) / 100 * scale);
}

// "leaf0 → spine1, with 2 flows of team-b (9c41…)".
std::string LimitOf(const control::v1::ExplainedFlow& flow) {
  if (flow.limit().empty()) return kNone;
  std::vector<std::string> with;
  for (const control::v1::FlowSharer& sharer : flow.shared_with()) {
    with.push_back(absl::StrCat(sharer.flows(), sharer.flows() == 1 ? " flow of " : " flows of ",
                                sharer.tenant(), " (", sharer.communicator(), ")"));
  }
  return with.empty() ? flow.limit()
                      : absl::StrCat(flow.limit(), ", with ", absl::StrJoin(with, ", "));
}

// "peer 40 %, rate 3 %": shares of the time between the two explanations.
std::string WaitsOf(const control::v1::ExplainedFlow& flow, double seconds) {
  std::vector<std::string> parts;
  const auto add = [&](const char* what, int64_t ns) {
    const double share = static_cast<double>(ns) / 1e9 / seconds;
    if (share >= kMinShare)
      parts.push_back(absl::StrCat(what, " ", std::lround(std::min(share, 1.0) * 100), " %"));
  };
  add("peer", flow.waited_for_credit_ns());
  add("rate", flow.waited_for_rate_ns());
  add("connection", flow.waited_for_connection_ns());
  return parts.empty() ? kNone : absl::StrJoin(parts, ", ");
}

std::string ChannelOf(const control::v1::ExplainedFlow& flow) {
  return absl::StrCat(flow.channel(), flow.in_ring() ? "" : " *");
}

}  // namespace

std::string RenderExplanation(const control::v1::Explanation& explanation) {
  const control::v1::CommunicatorSummary& summary = explanation.summary();
  std::string text = absl::StrCat("Communicator ", Printable(summary.id()));
  if (!summary.name().empty()) absl::StrAppend(&text, " ", Printable(summary.name()));
  absl::StrAppend(&text, ", ", Printable(summary.state()), "\n");
  Table why({{""}, {""}}, kIndent);
  for (const control::v1::Fact& fact : explanation.reasons()) why.Row({fact.name(), fact.value()});
  absl::StrAppend(&text, "\nWhy", why.Text());
  if (explanation.flows_size() == 0) return absl::StrCat(text, "\nNo flows.\n");
  Table flows({{"CHANNEL"},
               {"FROM"},
               {"TO"},
               {"LOCAL (SOURCE PORT)"},
               {"LINKS"},
               {"FAIR SHARE", Align::kRight},
               {"RATE", Align::kRight},
               {"STALLED ON"},
               {"LIMITED BY"}},
              kIndent);
  bool others = false;
  for (const control::v1::ExplainedFlow& flow : explanation.flows()) {
    others = others || !flow.in_ring();
    flows.Row({ChannelOf(flow), flow.from(), flow.to(), flow.local(),
               flow.links_size() == 0 ? kNone : absl::StrJoin(flow.links(), ", "),
               flow.fair_share_bps() > 0 ? FormatRate(flow.fair_share_bps()) : kNone,
               FormatRate(flow.measured_bps()), WaitsOf(flow, explanation.seconds()),
               LimitOf(flow)});
  }
  absl::StrAppend(&text, "\nFlows, over ",
                  FormatAge(static_cast<int64_t>(explanation.seconds() * 1e9)), "\n", flows.Text());
  if (others)
    absl::StrAppend(&text, kIndent, "* not a lane of the ring: no fair share is computed\n");
  return text;
}

}  // namespace mccs
