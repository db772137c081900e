#include "service/rdma_devices.h"

#include <arpa/inet.h>
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/units.h"

namespace mccs {
namespace {

// With less, lanes cannot register their slots, and nothing of a tenant.
constexpr uint64_t kLeastLockedBytes = 64 * kMiB;

struct Subnet {
  uint32_t address = 0;  // host byte order
  int bits = 0;

  bool Contains(uint32_t other) const { return bits == 0 || (address ^ other) >> (32 - bits) == 0; }
};

std::optional<uint32_t> ParseAddress(const std::string& text) {
  in_addr address{};
  if (inet_pton(AF_INET, text.c_str(), &address) != 1) return std::nullopt;
  return ntohl(address.s_addr);
}

std::optional<Subnet> ParseSubnet(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return std::nullopt;
  const std::optional<uint32_t> address = ParseAddress(text.substr(0, slash));
  int bits = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + slash + 1, end, bits);
  const bool valid = address.has_value() && parsed.ec == std::errc() && parsed.ptr == end &&
                     bits >= 0 && bits <= 32;
  return valid ? std::optional<Subnet>({.address = *address, .bits = bits}) : std::nullopt;
}

bool IsIn(const std::string& subnet, const std::string& address) {
  if (subnet.empty()) return true;
  const std::optional<uint32_t> parsed = ParseAddress(address);
  const std::optional<Subnet> within = ParseSubnet(subnet);
  return parsed.has_value() && within.has_value() && within->Contains(*parsed);
}

std::string NameOf(const IbPortInfo& port) {
  return absl::StrCat(port.device, " port ", port.port);
}

// The first address of an InfiniBand port's interface (IPoIB).
std::string AddressOf(const IbPortInfo& port, const HostInventory& inventory,
                      const std::string& subnet) {
  for (const NicInfo& nic : inventory.nics) {
    if (std::ranges::find(port.nics, nic.name) == port.nics.end()) continue;
    for (const std::string& address : nic.addresses) {
      if (IsIn(subnet, address)) return address;
    }
  }
  return "";
}

bool HasAddress(const HostInventory& inventory, const std::string& address) {
  return std::ranges::any_of(inventory.nics, [&](const NicInfo& nic) {
    return std::ranges::find(nic.addresses, address) != nic.addresses.end();
  });
}

// `name`: "mlx5_0", or "mlx5_0/1" for one port.
bool Names(const std::string& name, const IbPortInfo& port) {
  return name == port.device || name == absl::StrCat(port.device, "/", port.port);
}

void ChooseUse(const RdmaConfig& config, const HostInventory& inventory, RdmaPort* port) {
  const IbPortInfo& info = port->info;
  const bool named =
      config.devices.empty() || std::ranges::any_of(config.devices, [&](const std::string& name) {
        return Names(name, info);
      });
  if (!named) {
    port->reason = "`rdma.devices` in mccsd's configuration does not name it";
    return;
  }
  if (!info.problem.empty()) {
    port->reason = info.problem;
    return;
  }
  if (!info.active) {
    port->reason = absl::StrCat("its state is ", info.state, "; bring its link up");
    return;
  }
  if (info.infiniband) {
    const std::string address = AddressOf(info, inventory, config.subnet);
    if (address.empty() || info.gids.empty()) {
      port->reason = absl::StrCat("its interface ", absl::StrJoin(info.nics, ", "),
                                  " has no address", config.subnet.empty() ? "" : " in ",
                                  config.subnet, "; configure IP over InfiniBand");
      return;
    }
    port->use = {.gid = info.gids.front(), .address = address};
    return;
  }
  for (const IbGid& gid : info.gids) {
    const bool fits = gid.routable && !gid.address.empty() && IsIn(config.subnet, gid.address) &&
                      HasAddress(inventory, gid.address);
    if (!fits) continue;
    port->use = {.gid = gid, .address = gid.address};
    return;
  }
  port->reason = absl::StrCat(
      "none of its ", info.gids.size(), " GIDs is of RoCE v2 with an IPv4 address of this host",
      config.subnet.empty() ? "" : " in ", config.subnet, "; give interface ",
      info.nics.empty() ? "of the port" : absl::StrJoin(info.nics, ", "), " such an address");
}

bool ListensAt(const std::string& listen, const std::string& address) {
  return IsWildcardAddress(listen) || listen == address;
}

uint64_t LockedBytes() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return kUnlimitedBytes;
  }
  return limit.rlim_cur;
}

std::string FormatLocked(uint64_t bytes) {
  return bytes == kUnlimitedBytes ? "unlimited" : FormatBytes(bytes);
}

std::string_view NameOf(SourcePortMeans means) {
  switch (means) {
    case SourcePortMeans::kNone:
      return "its own choice";
    case SourcePortMeans::kModify:
      return "any (mlx5)";
    case SourcePortMeans::kFlowLabel:
      return "49152 to 65535, by flow label";
    case SourcePortMeans::kNumber:
      return "by queue pair number";
  }
  return "";
}

}  // namespace

absl::Status CheckSubnet(const std::string& text) {
  if (text.empty() || ParseSubnet(text).has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "': expected an IPv4 network such as 10.0.0.0/16"));
}

absl::Status CheckMtu(const RdmaConfig& config) {
  const bool valid = config.mtu == 0 ||
                     (std::has_single_bit(config.mtu) && config.mtu >= 256 && config.mtu <= 4096);
  if (valid) return absl::OkStatus();
  return absl::InvalidArgumentError("expected 256, 512, 1024, 2048 or 4096 bytes, or 0");
}

absl::Status CheckTimeouts(const RdmaConfig& config) {
  if (config.timeout == 0)
    return absl::InvalidArgumentError("0 means no timeout; expected 1 to 31");
  constexpr double kUnitS = 4.096e-6;
  const double seconds =
      kUnitS * std::pow(2, config.timeout) * static_cast<double>(config.retries + 1);
  const auto most = static_cast<double>(PeerPair::kStuckNs) / kNsPerSec;
  if (seconds <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("with %d `retries`, a packet is repeated for %.1f s (4.096 µs × 2^%d × %d); "
                      "at most %.0f s are allowed",
                      config.retries, seconds, config.timeout, config.retries + 1, most));
}

RdmaSurvey ChooseRdmaPorts(const RdmaConfig& config, const Endpoint& listen,
                           const HostInventory& inventory,
                           absl::StatusOr<std::vector<IbPortInfo>> ports, uint64_t locked_bytes) {
  RdmaSurvey survey{
      .ports = {}, .problem = "", .locked_bytes = locked_bytes, .unknown_devices = {}};
  if (!ports.ok()) {
    survey.problem = std::string(ports.status().message());
    return survey;
  }
  for (IbPortInfo& info : *ports) {
    RdmaPort& port = survey.ports.emplace_back();
    port.info = std::move(info);
    ChooseUse(config, inventory, &port);
    if (port.use.has_value() && !ListensAt(listen.host, port.use->address)) {
      port.reason = absl::StrCat("mccsd does not listen at its address ", port.use->address,
                                 "; set `listen` in the configuration to ",
                                 ToString(Endpoint{"0.0.0.0", listen.port}));
      port.use.reset();
    }
  }
  for (const std::string& device : config.devices) {
    const bool known = std::ranges::any_of(
        survey.ports, [&](const RdmaPort& port) { return Names(device, port.info); });
    if (!known) survey.unknown_devices.push_back(device);
  }
  if (survey.ports.empty()) {
    survey.problem = "no RDMA device; check that its driver is loaded (ls /sys/class/infiniband)";
  } else if (!survey.unknown_devices.empty()) {
    survey.problem =
        absl::StrCat("`rdma.devices` names ", absl::StrJoin(survey.unknown_devices, ", "),
                     ", which is not there; see mccsd --check-rdma");
  } else if (locked_bytes < kLeastLockedBytes) {
    survey.problem = absl::StrCat("locked memory is limited to ", FormatBytes(locked_bytes),
                                  ", and RDMA needs at least ", FormatBytes(kLeastLockedBytes),
                                  "; set LimitMEMLOCK=infinity in mccsd's unit, or ulimit -l");
  }
  return survey;
}

RdmaSurvey SurveyRdma(const RdmaConfig& config, const Endpoint& listen,
                      const HostInventory& inventory) {
  return ChooseRdmaPorts(config, listen, inventory, ListIbPorts(), LockedBytes());
}

std::string WhyNoRdma(const RdmaSurvey& survey) {
  if (!survey.problem.empty()) return survey.problem;
  std::vector<std::string> reasons;
  for (const RdmaPort& port : survey.ports) {
    if (port.use.has_value()) return "";
    reasons.push_back(absl::StrCat("RDMA device ", NameOf(port.info), ": ", port.reason));
  }
  return absl::StrJoin(reasons, "; ");
}

std::string RenderSurvey(const RdmaSurvey& survey) {
  std::string text;
  for (const RdmaPort& port : survey.ports) {
    const IbPortInfo& info = port.info;
    absl::StrAppend(&text, NameOf(info),
                    "\n  link:         ", info.infiniband ? "InfiniBand" : "Ethernet (RoCE)", ", ",
                    info.state, ", MTU ", info.mtu_bytes, " bytes, interfaces: ",
                    info.nics.empty() ? "none" : absl::StrJoin(info.nics, ", "),
                    "\n  source ports: ", std::string(NameOf(info.source_port_means)), "\n");
    for (const IbGid& gid : info.gids) {
      absl::StrAppend(&text, "  GID ", gid.index, ":        ", gid.text,
                      info.infiniband ? ""
                      : gid.routable  ? " RoCE v2"
                                      : " RoCE v1",
                      gid.address.empty() ? "" : " ", gid.address, "\n");
    }
    absl::StrAppend(&text, "  use:          ",
                    port.use.has_value()
                        ? absl::StrCat("GID ", port.use->gid.index, " at ", port.use->address)
                        : absl::StrCat("none: ", port.reason),
                    "\n");
  }
  absl::StrAppend(&text, "locked memory of this process: at most ",
                  FormatLocked(survey.locked_bytes), "\n");
  const std::string why = WhyNoRdma(survey);
  absl::StrAppend(&text, why.empty() ? "RDMA can be used.\n"
                                     : absl::StrCat("RDMA cannot be used: ", why, "\n"));
  return text;
}

absl::StatusOr<OpenedRdma> OpenRdma(const RdmaConfig& config, const RdmaSurvey& survey,
                                    Reactor& reactor, std::unique_ptr<MappingRunner> runner,
                                    Random& random, const Clock& clock, Log& log) {
  OpenedRdma opened;
  std::vector<std::string> problems;
  RdmaTransportOptions options{.nics = {},
                               .runner = std::move(runner),
                               .report = [&log](const std::string& line) { log.Warning(line); }};
  std::vector<std::string> used;
  for (const RdmaPort& port : survey.ports) {
    if (!port.use.has_value()) continue;
    absl::StatusOr<std::unique_ptr<VerbsNic>> nic = OpenIbNic(
        {.device = port.info.device, .port = port.info.port, .gid_index = port.use->gid.index},
        reactor,
        {.mtu_bytes = static_cast<uint16_t>(config.mtu),
         .service_level = static_cast<uint8_t>(config.service_level),
         .timeout = static_cast<uint8_t>(config.timeout),
         .retries = static_cast<uint8_t>(config.retries)});
    if (!nic.ok()) {
      problems.emplace_back(nic.status().message());
      log.Warning(problems.back());
      continue;
    }
    options.nics.push_back({.address = {port.use->address}, .verbs = nic->get()});
    opened.nics.push_back(*std::move(nic));
    used.push_back(absl::StrCat(port.info.device, "/", port.info.port, " at ", port.use->address));
  }
  if (used.empty()) return absl::UnavailableError(absl::StrJoin(problems, "; "));
  opened.description = absl::StrCat("rdma (", absl::StrJoin(used, ", "), ")");
  opened.transport = std::make_unique<RdmaTransport>(std::move(options), random, clock);
  return opened;
}

}  // namespace mccs
