#include "tools/mccsctl/render.h"

#include <google/protobuf/util/json_util.h>
#include <yaml-cpp/yaml.h>

#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/table.h"
#include "base/units.h"

namespace mccs {
namespace {

// The remedy for a certificate that ends soon.
constexpr char kRenew[] = "; renew it: mccs-controller issue-certificate PKI";

// "eth0 10.0.0.1 25 Gbit/s".
std::string Describe(const agent::v1::Nic& nic) {
  std::string text = nic.name();
  if (nic.addresses_size() > 0) absl::StrAppend(&text, " ", nic.addresses(0));
  if (nic.speed_bps() > 0) {
    char speed[32];
    std::snprintf(speed, sizeof(speed), " %g Gbit/s", static_cast<double>(nic.speed_bps()) / 1e9);
    text += speed;
  }
  return text;
}

std::string Describe(const google::protobuf::RepeatedPtrField<agent::v1::Nic>& nics) {
  std::vector<std::string> texts;
  for (const agent::v1::Nic& nic : nics) texts.push_back(Describe(nic));
  return OrDash(absl::StrJoin(texts, ", "));
}

// "h0 → h1 → h0".
std::string Describe(const control::v1::Ring& ring) {
  if (ring.hosts_size() == 0) return kNone;
  if (ring.hosts_size() == 1) return absl::StrCat(ring.hosts(0), " (one host: no lanes)");
  return absl::StrCat(absl::StrJoin(ring.hosts(), " → "), " → ", ring.hosts(0));
}

// "last on #17: priority 5, deadline 2000 us, critical (40 calls with options)".
std::string Describe(const agent::v1::CallsWithOptions& options) {
  std::vector<std::string> parts;
  if (options.priority() > 0) parts.push_back(absl::StrCat("priority ", options.priority()));
  if (options.deadline_us() > 0) {
    parts.push_back(absl::StrCat("deadline ", options.deadline_us(), " us"));
  }
  if (options.criticality() != agent::v1::CRITICALITY_UNSPECIFIED) {
    const std::string& name = agent::v1::Criticality_Name(options.criticality());
    parts.push_back(name.empty() ? "unknown criticality" : absl::AsciiStrToLower(name));
  }
  return absl::StrCat("last on #", options.last_number(), ": ", absl::StrJoin(parts, ", "), " (",
                      options.calls(), options.calls() == 1 ? " call" : " calls", " with options)");
}

// "algorithms ring, at most 4 channels, traffic class 106"; empty: no hints.
std::string Describe(const cluster::Hints& hints) {
  std::vector<std::string> texts;
  if (!hints.algorithms().empty()) texts.push_back(absl::StrCat("algorithms ", hints.algorithms()));
  if (!hints.protocols().empty()) texts.push_back(absl::StrCat("protocols ", hints.protocols()));
  if (hints.min_channels() > 0) {
    texts.push_back(absl::StrCat("at least ", hints.min_channels(), " channels"));
  }
  if (hints.max_channels() > 0) {
    texts.push_back(absl::StrCat("at most ", hints.max_channels(), " channels"));
  }
  if (hints.buffer_bytes() > 0) {
    texts.push_back(absl::StrCat("buffers of ", FormatBytes(hints.buffer_bytes())));
  }
  if (hints.has_traffic_class()) {
    texts.push_back(absl::StrCat("traffic class ", hints.traffic_class()));
  }
  if (hints.has_service_level()) {
    texts.push_back(absl::StrCat("service level ", hints.service_level()));
  }
  return absl::StrJoin(texts, ", ");
}

// "epoch 5 proposed 2 s ago, not yet applied on h1, h3".
std::string Describe(const control::v1::PendingChange& change) {
  return absl::StrCat("epoch ", change.epoch(), " proposed ", FormatAge(change.age_ns()),
                      " ago, not yet applied on ", absl::StrJoin(change.pending_hosts(), ", "));
}

std::string FormatNumber(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), number >= 100 ? "%.0f" : "%.1f", number);
  return text;
}

// SI prefixes, as in nccl-tests.
std::string FormatBandwidth(double bytes_per_second) {
  const char* unit = "GB/s";
  double scale = 1e9;
  if (bytes_per_second < 1e6) {
    unit = "kB/s";
    scale = 1e3;
  } else if (bytes_per_second < 1e9) {
    unit = "MB/s";
    scale = 1e6;
  }
  char text[48];
  std::snprintf(text, sizeof(text), "%.2f %s", bytes_per_second / scale, unit);
  return text;
}

std::string RenderFacts(const control::v1::CommunicatorDetail& detail) {
  const control::v1::CommunicatorSummary& summary = detail.summary();
  std::vector<std::pair<std::string, std::string>> facts = {
      {"Name", OrDash(summary.name())},
      {"Tenant", OrDash(summary.tenant())},
      {"State", summary.state()},
      {"Ranks", absl::StrCat(summary.ranks(), " on ", summary.hosts(),
                             summary.hosts() == 1 ? " host" : " hosts")},
      {"Epoch", absl::StrCat(summary.epoch())},
      {"Strategy", absl::StrCat(OrDash(summary.strategy()), ", ", summary.channels(),
                                summary.channels() == 1 ? " channel" : " channels")},
      {"Operations", absl::StrCat(summary.operations())},
      {"Bytes", FormatBytes(summary.bytes())},
      {"Age", FormatAge(summary.age_ns())},
  };
  const std::string hints = Describe(detail.hints());
  if (!hints.empty()) facts.emplace_back("Hints", hints);
  if (detail.captured_groups() > 0) {
    facts.emplace_back("CUDA graphs", absl::StrCat(detail.captured_groups(), " captured"));
  }
  if (detail.has_with_options()) facts.emplace_back("Options", Describe(detail.with_options()));
  for (const std::string& staged : detail.staged()) facts.emplace_back("Staged", staged);
  if (!detail.send_windows().empty()) facts.emplace_back("Send window", detail.send_windows());
  if (detail.has_change()) facts.emplace_back("Change", Describe(detail.change()));
  if (!detail.change_error().empty()) {
    facts.emplace_back("Rejected", detail.change_error());
  }
  std::string text = absl::StrCat("Communicator ", Printable(summary.id()), "\n");
  for (const auto& [name, value] : facts) {
    absl::StrAppend(&text, kIndent, name, ":", std::string(12 - name.size(), ' '), Printable(value),
                    "\n");
  }
  return text;
}

std::string RenderStalledOperations(const control::v1::CommunicatorDetail& detail) {
  if (detail.stalled_on_size() == 0) return "";
  std::string text = "\nStalled operations\n";
  for (const std::string& stalled_on : detail.stalled_on()) {
    absl::StrAppend(&text, kIndent, Printable(stalled_on), "\n");
  }
  return text;
}

std::string RenderProgress(const control::v1::CommunicatorDetail& detail) {
  if (detail.progress_size() == 0) return "";
  Table hosts({{"HOST"}, {"EPOCH", Align::kRight}, {"OPERATIONS", Align::kRight}, {"STATE"}},
              kIndent);
  for (const control::v1::HostProgress& host : detail.progress()) {
    hosts.Row(
        {host.host(), absl::StrCat(host.epoch()), absl::StrCat(host.operations()), host.state()});
  }
  return absl::StrCat("\nHosts\n", hosts.Text());
}

std::string RenderRanks(const control::v1::CommunicatorDetail& detail) {
  Table ranks({{"RANK", Align::kRight}, {"HOST"}, {"GPU"}, {"PID", Align::kRight}}, kIndent);
  for (const cluster::Member& member : detail.members()) {
    ranks.Row({absl::StrCat(member.rank()), member.host(), OrDash(member.gpu()),
               absl::StrCat(member.process())});
  }
  return absl::StrCat("\nRanks\n", ranks.Text());
}

std::string RenderRings(const control::v1::CommunicatorDetail& detail) {
  Table rings({{"CHANNEL", Align::kRight}, {"RING"}}, kIndent);
  for (const control::v1::Ring& ring : detail.rings())
    rings.Row({absl::StrCat(ring.channel()), Describe(ring)});
  return absl::StrCat("\nRings\n", rings.Text());
}

// Of lanes over RDMA.
std::string RenderQueuePairs(const control::v1::CommunicatorDetail& detail) {
  Table pairs({{"CHANNEL", Align::kRight},
               {"FROM"},
               {"TO"},
               {"TRANSPORT"},
               {"DEVICE"},
               {"GID"},
               {"QUEUE PAIR", Align::kRight},
               {"PEER'S", Align::kRight},
               {"SOURCE PORT", Align::kRight},
               {"REQUESTED", Align::kRight},
               {"MEMORY"},
               {"COPIED", Align::kRight}},
              kIndent);
  bool any = false;
  const auto port = [](uint32_t number, const char* none) {
    return number == 0 ? std::string(none) : absl::StrCat(number);
  };
  for (const control::v1::LaneStatus& lane : detail.lanes()) {
    if (!lane.has_rdma()) continue;
    any = true;
    const agent::v1::RdmaLane& rdma = lane.rdma();
    pairs.Row({absl::StrCat(lane.channel()), lane.from(), lane.to(), "rdma",
               absl::StrCat(rdma.device(), "/", rdma.port()), rdma.gid(),
               absl::StrCat(rdma.queue_pair()), absl::StrCat(rdma.peer_queue_pair()),
               port(rdma.source_port(), "unknown"), port(rdma.requested_source_port(), "any"),
               OrDash(rdma.memory()), FormatBytes(lane.copied_bytes())});
  }
  return any ? absl::StrCat("\nQueue pairs\n", pairs.Text()) : "";
}

std::string RenderLanes(const control::v1::CommunicatorDetail& detail) {
  if (detail.lanes_size() == 0) return "";
  Table lanes({{"CHANNEL", Align::kRight},
               {"FROM"},
               {"TO"},
               {"LOCAL (SOURCE PORT)"},
               {"REMOTE"},
               {"SENT", Align::kRight},
               {"RECONNECTS", Align::kRight},
               {"STATE"}},
              kIndent);
  for (const control::v1::LaneStatus& lane : detail.lanes()) {
    lanes.Row({absl::StrCat(lane.channel()), lane.from(), lane.to(), OrDash(lane.local()),
               OrDash(lane.remote()), FormatBytes(lane.bytes()), absl::StrCat(lane.reconnects()),
               lane.state()});
  }
  return absl::StrCat("\nLanes\n", lanes.Text(), RenderQueuePairs(detail));
}

void MakeBlockStyle(YAML::Node node) {
  if (!node.IsMap() && !node.IsSequence()) return;
  // Empty maps and sequences have no block form.
  node.SetStyle(node.size() > 0 ? YAML::EmitterStyle::Block : YAML::EmitterStyle::Flow);
  for (auto entry : node) MakeBlockStyle(node.IsMap() ? entry.second : YAML::Node(entry));
}

// Counts pairs of hosts separately from links: "4 + 2 pairs".
std::string LinksText(const control::v1::CommunicatorRates& rates, bool wide) {
  std::vector<std::string> parts;
  if (wide) {
    parts.assign(rates.links().begin(), rates.links().end());
    parts.insert(parts.end(), rates.pairs().begin(), rates.pairs().end());
    return absl::StrJoin(parts, ", ");
  }
  if (rates.links_size() > 0) parts.push_back(absl::StrCat(rates.links_size()));
  if (rates.pairs_size() > 0)
    parts.push_back(absl::StrCat(rates.pairs_size(), rates.pairs_size() == 1 ? " pair" : " pairs"));
  return absl::StrJoin(parts, " + ");
}

// The cause of each pair is a note of the host whose name is lower.
void DescribeUnreachable(const control::v1::HostStatus& status, std::string* state,
                         std::vector<std::string>* notes) {
  if (status.unreachable().empty()) return;
  std::vector<std::string> names;
  for (const control::v1::UnreachableHostStatus& peer : status.unreachable()) {
    names.push_back(peer.host());
    if (peer.host() < status.host().name()) continue;
    std::vector<std::string> seen;
    for (const control::v1::UnreachableEvidence& evidence : peer.seen_by()) {
      const std::string& other =
          evidence.host() == peer.host() ? status.host().name() : peer.host();
      seen.push_back(absl::StrCat(evidence.host(), " cannot connect to ", other, ": ",
                                  evidence.cause(), " (", FormatAge(evidence.age_ns()), " ago)"));
    }
    notes->push_back(absl::StrCat("hosts ", status.host().name(), " and ", peer.host(), ", for ",
                                  FormatAge(peer.age_ns()), ": ", absl::StrJoin(seen, "; "),
                                  "; jobs avoid the pair, or fail at once; repair the network "
                                  "between the two hosts"));
  }
  constexpr size_t kMaxShown = 3;
  const size_t more = names.size() - std::min(names.size(), kMaxShown);
  names.resize(names.size() - more);
  absl::StrAppend(state, ", unreachable: ", absl::StrJoin(names, " "));
  if (more > 0) absl::StrAppend(state, " and ", more, " more");
}

}  // namespace

std::string RenderHosts(const control::v1::ListHostsReply& reply) {
  if (reply.hosts_size() == 0)
    return "No registered hosts. Start mccsd with this controller's address.\n";
  Table hosts({{"HOST"},
               {"POD"},
               {"RACK"},
               {"GPUS", Align::kRight},
               {"COMMUNICATORS", Align::kRight},
               {"ENDPOINT"},
               {"TRANSPORT"},
               {"NICS"},
               {"SINCE", Align::kRight},
               {"STATE"}});
  std::vector<std::string> notes;
  for (const control::v1::HostStatus& status : reply.hosts()) {
    std::string state = status.state();
    if (!status.drain().empty()) absl::StrAppend(&state, ", ", status.drain());
    if (status.topology_mismatches_size() > 0) absl::StrAppend(&state, ", topology mismatch");
    notes.insert(notes.end(), status.topology_mismatches().begin(),
                 status.topology_mismatches().end());
    if (const auto& problems = status.host().gpu_survey().problems(); !problems.empty()) {
      absl::StrAppend(&state, ", GPU problem");
      for (const std::string& problem : problems)
        notes.push_back(absl::StrCat("host ", status.host().name(), ": ", problem));
    }
    DescribeUnreachable(status, &state, &notes);
    if (!status.certificate_problem().empty()) {
      absl::StrAppend(&state, ", ", status.certificate_problem());
      notes.push_back(absl::StrCat("host ", status.host().name(), ": ",
                                   status.certificate_problem(), kRenew, " --host ",
                                   status.host().name()));
    }
    const agent::v1::Host& host = status.host();
    hosts.Row({host.name(), OrDash(host.position().pod()), OrDash(host.position().rack()),
               absl::StrCat(host.gpus_size()), absl::StrCat(status.communicators()),
               OrDash(host.peer_endpoint()), OrDash(host.transport()), Describe(host.nics()),
               FormatAge(status.age_ns()), std::move(state)});
  }
  if (!reply.certificate_problem().empty()) {
    notes.push_back(
        absl::StrCat("the controller's ", reply.certificate_problem(), kRenew, " --controller"));
  }
  std::string text = hosts.Text();
  if (!notes.empty()) text += "\n";
  for (const std::string& note : notes) absl::StrAppend(&text, "Note: ", note, "\n");
  return text;
}

std::string RenderCommunicators(const control::v1::ListCommunicatorsReply& reply) {
  if (reply.communicators_size() == 0) return "No communicators.\n";
  Table table({{"ID"},
               {"NAME"},
               {"TENANT"},
               {"RANKS", Align::kRight},
               {"HOSTS", Align::kRight},
               {"CHANNELS", Align::kRight},
               {"EPOCH", Align::kRight},
               {"STRATEGY"},
               {"OPERATIONS", Align::kRight},
               {"BYTES", Align::kRight},
               {"AGE", Align::kRight},
               {"STATE"}});
  for (const control::v1::CommunicatorSummary& c : reply.communicators()) {
    const bool is_reported =
        c.ranks() > 0;  // a daemon has reported it since the controller started
    table.Row({c.id(), OrDash(c.name()), OrDash(c.tenant()),
               OrDash(is_reported ? absl::StrCat(c.ranks()) : ""), absl::StrCat(c.hosts()),
               absl::StrCat(c.channels()), absl::StrCat(c.epoch()), OrDash(c.strategy()),
               OrDash(is_reported ? absl::StrCat(c.operations()) : ""),
               OrDash(is_reported ? FormatBytes(c.bytes()) : ""),
               OrDash(is_reported ? FormatAge(c.age_ns()) : ""), c.state()});
  }
  return table.Text();
}

std::string RenderTop(const control::v1::TopRates& top, bool wide) {
  if (top.communicators_size() == 0) return "No communicators.\n";
  Table table({{"TENANT"},
               {"COMMUNICATOR"},
               {"NAME"},
               {"RANKS", Align::kRight},
               {"OPS/S", Align::kRight},
               {"ALGBW", Align::kRight},
               {"BUSBW", Align::kRight},
               {"LINKS", wide ? Align::kLeft : Align::kRight},
               {"STATE"}});
  for (const control::v1::CommunicatorRates& c : top.communicators()) {
    table.Row({OrDash(c.tenant()), c.id(), OrDash(c.name()), absl::StrCat(c.ranks()),
               FormatNumber(c.operations_per_second()), FormatBandwidth(c.algbw()),
               FormatBandwidth(c.busbw()), OrDash(LinksText(c, wide)), c.state()});
  }
  return table.Text();
}

std::string RenderCommunicator(const control::v1::CommunicatorDetail& detail) {
  return absl::StrCat(RenderFacts(detail), RenderStalledOperations(detail), RenderProgress(detail),
                      RenderRanks(detail), RenderRings(detail), RenderLanes(detail));
}

std::string RenderJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  MCCS_CHECK(google::protobuf::util::MessageToJsonString(message, &text, options).ok());
  return text;
}

std::string RenderYaml(const google::protobuf::Message& message) {
  // JSON is YAML in flow style: load it and change the style.
  YAML::Node document = YAML::Load(RenderJson(message));
  MakeBlockStyle(document);
  YAML::Emitter emitter;
  emitter << document;
  return absl::StrCat(emitter.c_str(), "\n");
}

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

// "credit 40 %, rate 3 %": shares of the interval between the two queries, by reason.
std::string WaitsOf(const control::v1::ExplainedFlow& flow, double seconds) {
  std::vector<std::string> parts;
  const auto add = [&](const char* what, int64_t ns) {
    const double share = static_cast<double>(ns) / 1e9 / seconds;
    if (share >= kMinShare)
      parts.push_back(absl::StrCat(what, " ", std::lround(std::min(share, 1.0) * 100), " %"));
  };
  add("credit", flow.waited_for_credit_ns());
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
