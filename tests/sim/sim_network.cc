#include "tests/sim/sim_network.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <deque>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/endpoint.h"
#include "base/status_macros.h"

namespace mccs {

// One direction of a stream.
struct SimNetwork::Pipe {
  std::deque<std::byte> arrived;
  size_t in_flight = 0;
  MonotonicNs last_arrival = 0;  // later writes do not arrive before this
  bool end_arrived = false;      // the writer closed and all its bytes have arrived

  size_t held() const { return arrived.size() + in_flight; }
};

// End 0 opened the stream, end 1 accepted it. pipes[i] leads from end i to the other end.
struct SimNetwork::Stream {
  std::string hosts[2];
  Endpoint endpoints[2];
  Pipe pipes[2];
  bool open[2] = {false, false};
  bool closed[2] = {false, false};
  Waker* wakers[2] = {nullptr, nullptr};
  uint8_t marks[2] = {0, 0};
  std::string broken;  // the reason; empty while intact

  void Wake(int end) const {
    if (wakers[end] != nullptr) wakers[end]->Wake();
  }
};

struct SimNetwork::ListenState {
  bool any_address = false;  // listens on all addresses of its host
  std::deque<std::shared_ptr<Stream>> backlog;
};

class SimConnection final : public Connection {
 public:
  SimConnection(SimNetwork& network, std::shared_ptr<SimNetwork::Stream> stream, int end)
      : network_(network), stream_(std::move(stream)), end_(end) {}
  ~SimConnection() override { network_.CloseEnd(stream_, end_); }

  absl::StatusOr<size_t> Write(std::span<const iovec> pieces) override {
    if (!stream_->broken.empty()) return Unavailable(stream_->broken);
    if (in().end_arrived) return Unavailable("closed by the peer");
    return network_.Write(stream_, out(), pieces);
  }
  absl::StatusOr<size_t> Read(std::span<const iovec> pieces) override {
    if (!stream_->broken.empty()) return Unavailable(stream_->broken);
    if (in().arrived.empty() && in().end_arrived) return Unavailable("closed by the peer");
    const bool was_full = in().held() >= network_.options_.buffer_bytes;
    const size_t got = network_.Read(in(), pieces);
    if (was_full && got > 0) {
      network_.changed_.insert(stream_->hosts[1 - end_]);
      stream_->Wake(1 - end_);
    }
    return got;
  }
  bool readable() const override {
    return !stream_->broken.empty() || !in().arrived.empty() || in().end_arrived;
  }
  bool writable() const override {
    return !stream_->broken.empty() || in().end_arrived ||
           (stream_->open[end_] && stream_->pipes[end_].held() < network_.options_.buffer_bytes);
  }
  // Wakes only this end, so that code that relies on another stream's events is detected.
  void SetWaker(Waker* waker) override {
    stream_->wakers[end_] = waker;
    if (readable() || writable()) stream_->Wake(end_);
  }
  void Mark(uint8_t dscp) override { stream_->marks[end_] = dscp; }
  Endpoint local() const override { return stream_->endpoints[end_]; }
  Endpoint remote() const override { return stream_->endpoints[1 - end_]; }

 private:
  SimNetwork::Pipe& in() const { return stream_->pipes[1 - end_]; }
  SimNetwork::Pipe& out() const { return stream_->pipes[end_]; }
  absl::Status Unavailable(const std::string& why) const {
    return absl::UnavailableError(absl::StrCat("stream with ", ToString(remote()), ": ", why));
  }

  SimNetwork& network_;
  std::shared_ptr<SimNetwork::Stream> stream_;
  const int end_;
};

class SimListener final : public Listener {
 public:
  SimListener(SimNetwork& network, Endpoint at, bool any_address)
      : network_(network), at_(std::move(at)) {
    state_.any_address = any_address;
    network_.listeners_[{at_.host, at_.port}] = &state_;
  }
  ~SimListener() override {
    auto it = network_.listeners_.find({at_.host, at_.port});
    if (it != network_.listeners_.end() && it->second == &state_) network_.listeners_.erase(it);
    for (const auto& stream : state_.backlog) network_.CloseEnd(stream, 1);
  }

  absl::StatusOr<std::unique_ptr<Connection>> Accept() override {
    if (state_.backlog.empty()) return nullptr;
    MCCS_RETURN_IF_ERROR(network_.CheckDescriptors(
        network_.HostOf(at_.host), absl::StrCat("cannot accept a connection at ", ToString(at_))));
    std::shared_ptr<SimNetwork::Stream> stream = std::move(state_.backlog.front());
    state_.backlog.pop_front();
    stream->marks[1] = mark_;
    return std::make_unique<SimConnection>(network_, std::move(stream), 1);
  }
  void Mark(uint8_t dscp) override { mark_ = dscp; }
  Endpoint local() const override { return at_; }

 private:
  SimNetwork& network_;
  const Endpoint at_;
  SimNetwork::ListenState state_;
  uint8_t mark_ = 0;
};

class SimHostNetwork final : public Network {
 public:
  SimHostNetwork(SimNetwork& network, std::string name)
      : network_(network), name_(std::move(name)) {}

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const Endpoint& at) override {
    return network_.Listen(name_, at);
  }
  absl::StatusOr<std::unique_ptr<Connection>> Connect(const Endpoint& to,
                                                      const ConnectOptions& options) override {
    const std::string& source = options.source_host;
    if (!source.empty() && !HasAddress(source)) {
      return absl::InvalidArgumentError(
          absl::StrCat("source address ", source, " is not an address of this host"));
    }
    return network_.Open(source.empty() ? name_ : source,
                         IsLoopbackAddress(to.host) ? Endpoint{name_, to.port} : to, options);
  }
  bool HasAddress(const std::string& address) override { return network_.HostOf(address) == name_; }
  bool HasLink(const std::string& address) override {
    const auto link = network_.links_.find(address);
    return link == network_.links_.end() || link->second != SimNetwork::Link::kDown;
  }
  bool Poll() override { return network_.changed_.erase(name_) > 0; }

 private:
  SimNetwork& network_;
  const std::string name_;
};

SimNetwork::SimNetwork(SimClock& clock, uint64_t seed, const SimNetworkOptions& options)
    : clock_(clock), options_(options), random_(seed) {}

SimNetwork::~SimNetwork() = default;

Network& SimNetwork::HostNetwork(const std::string& host) {
  std::unique_ptr<Network>& network = hosts_[host];
  if (network == nullptr) network = std::make_unique<SimHostNetwork>(*this, host);
  return *network;
}

void SimNetwork::AddAddress(const std::string& host, const std::string& address) {
  host_of_[address] = host;
}

const std::string& SimNetwork::HostOf(const std::string& address) const {
  const auto further = host_of_.find(address);
  return further != host_of_.end() ? further->second : address;
}

std::optional<MonotonicNs> SimNetwork::NextEventTime() const {
  if (events_.empty()) return std::nullopt;
  return events_.begin()->first.first;
}

void SimNetwork::AdvanceTo(MonotonicNs time) {
  while (!events_.empty() && events_.begin()->first.first <= time) {
    const MonotonicNs at = events_.begin()->first.first;
    Event event = std::move(events_.begin()->second);
    events_.erase(events_.begin());
    clock_.Set(std::max(clock_.Now(), at));
    if (!event.stream->broken.empty()) continue;
    if (Blocked(*event.stream, event.end)) {
      delayed_.push_back(std::move(event));
      continue;
    }
    event.action();
    for (const std::string& host : event.stream->hosts) changed_.insert(host);
  }
  clock_.Set(time);
}

int SimNetwork::Cut(const std::string& a, const std::string& b) {
  int cut = 0;
  for (const std::weak_ptr<Stream>& weak : streams_) {
    const std::shared_ptr<Stream> stream = weak.lock();
    if (stream == nullptr || !stream->broken.empty()) continue;
    const HostPair pair = {stream->hosts[0], stream->hosts[1]};
    if (pair != HostPair{a, b} && pair != HostPair{b, a}) continue;
    Break(*stream, "cut");
    ++cut;
  }
  return cut;
}

bool SimNetwork::CutStream(const Endpoint& opened_from) {
  for (const std::weak_ptr<Stream>& weak : streams_) {
    const std::shared_ptr<Stream> stream = weak.lock();
    if (stream == nullptr || !stream->broken.empty() || stream->endpoints[0] != opened_from)
      continue;
    Break(*stream, "cut");
    return true;
  }
  return false;
}

int SimNetwork::CutHost(const std::string& host) {
  int cut = 0;
  for (const std::weak_ptr<Stream>& weak : streams_) {
    const std::shared_ptr<Stream> stream = weak.lock();
    if (stream == nullptr || !stream->broken.empty()) continue;
    if (stream->hosts[0] != host && stream->hosts[1] != host) continue;
    Break(*stream, "the host is down");
    ++cut;
  }
  std::erase_if(listeners_, [&](const auto& entry) { return HostOf(entry.first.first) == host; });
  return cut;
}

void SimNetwork::Partition(const std::string& a, const std::string& b) {
  PartitionOneWay(a, b);
  PartitionOneWay(b, a);
}

void SimNetwork::PartitionOneWay(const std::string& from, const std::string& to) {
  partitioned_.insert({from, to});
}

void SimNetwork::Heal(const std::string& a, const std::string& b) {
  partitioned_.erase({a, b});
  partitioned_.erase({b, a});
  ReleaseDelayed();
}

void SimNetwork::SetOutOfDescriptors(const std::string& host, bool is) {
  is ? (void)out_of_descriptors_.insert(host) : (void)out_of_descriptors_.erase(host);
  changed_.insert(host);
}

absl::Status SimNetwork::CheckDescriptors(const std::string& host, std::string_view what) const {
  if (!out_of_descriptors_.contains(host)) return absl::OkStatus();
  return absl::ErrnoToStatus(EMFILE, std::string(what));
}

void SimNetwork::SetLink(const std::string& address, Link link) {
  links_[address] = link;
  ReleaseDelayed();
}

void SimNetwork::ReleaseDelayed() {
  std::vector<Event> held;
  held.swap(delayed_);
  for (Event& event : held) {
    if (Blocked(*event.stream, event.end)) {
      delayed_.push_back(std::move(event));
    } else {
      Schedule(clock_.Now(), event.stream, event.end, std::move(event.action));
    }
  }
}

size_t SimNetwork::open_streams() const {
  return static_cast<size_t>(std::ranges::count_if(streams_, [](const std::weak_ptr<Stream>& weak) {
    const std::shared_ptr<Stream> stream = weak.lock();
    return stream != nullptr && stream->broken.empty() && stream->open[0] && !stream->closed[0] &&
           !stream->closed[1];
  }));
}

size_t SimNetwork::half_closed_streams(const std::string& address) const {
  return static_cast<size_t>(std::ranges::count_if(streams_, [&](const auto& weak) {
    const std::shared_ptr<Stream> stream = weak.lock();
    return stream != nullptr && stream->open[1] && stream->closed[0] != stream->closed[1] &&
           (stream->hosts[0] == address || stream->hosts[1] == address);
  }));
}

std::vector<SimNetwork::StreamMark> SimNetwork::marks() const {
  std::vector<StreamMark> marks;
  for (const std::weak_ptr<Stream>& weak : streams_) {
    const std::shared_ptr<Stream> stream = weak.lock();
    if (stream == nullptr || !stream->broken.empty()) continue;
    for (int end : {0, 1}) {
      if (!stream->open[end] || stream->closed[end]) continue;
      marks.push_back({stream->endpoints[end], stream->endpoints[1 - end], stream->marks[end]});
    }
  }
  return marks;
}

bool SimNetwork::Blocked(const std::string& from, const std::string& to) const {
  const auto has_link = [this](const std::string& nic) {
    const auto link = links_.find(nic);
    return link == links_.end() || link->second == Link::kUp;
  };
  return Partitioned(HostOf(from), HostOf(to)) || !has_link(from) || !has_link(to);
}

bool SimNetwork::Blocked(const Stream& stream, int end) const {
  return Blocked(stream.endpoints[end].host, stream.endpoints[1 - end].host);
}

absl::StatusOr<std::unique_ptr<Listener>> SimNetwork::Listen(const std::string& host,
                                                             const Endpoint& at) {
  const bool any_address = at.host.empty() || at.host == "0.0.0.0";
  if (!any_address && HostOf(at.host) != host) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen at ", ToString(at), ": not an address of this host"));
  }
  MCCS_RETURN_IF_ERROR(CheckDescriptors(host, absl::StrCat("cannot listen at ", ToString(at))));
  Endpoint local{.host = any_address ? host : at.host, .port = at.port};
  if (local.port == 0) local.port = FreePort(host);
  if (FindListener(local) != nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot listen at ", ToString(local), ": in use"));
  }
  return std::make_unique<SimListener>(*this, local, any_address);
}

SimNetwork::ListenState* SimNetwork::FindListener(const Endpoint& at) const {
  const auto here = listeners_.find({at.host, at.port});
  if (here != listeners_.end()) return here->second;
  const auto any_address = listeners_.find({HostOf(at.host), at.port});
  const bool there = any_address != listeners_.end() && any_address->second->any_address;
  return there ? any_address->second : nullptr;
}

absl::StatusOr<std::unique_ptr<Connection>> SimNetwork::Open(const std::string& from,
                                                             const Endpoint& to,
                                                             const ConnectOptions& options) {
  MCCS_RETURN_IF_ERROR(
      CheckDescriptors(HostOf(from), absl::StrCat("cannot connect to ", ToString(to))));
  Endpoint local{.host = from, .port = options.source_port};
  if (local.port == 0) {
    do {
      local.port = FreePort(from);
    } while (PortTaken(local, to));
  }
  if (PortTaken(local, to)) {
    return absl::AlreadyExistsError(
        absl::StrCat("cannot connect to ", ToString(to), ": source port ", local.port, " in use"));
  }
  auto stream = std::make_shared<Stream>();
  stream->hosts[0] = HostOf(from);
  stream->hosts[1] = HostOf(to.host);
  stream->endpoints[0] = local;
  stream->endpoints[1] = to;
  stream->marks[0] = options.dscp;
  std::erase_if(streams_, [](const std::weak_ptr<Stream>& old) { return old.expired(); });
  streams_.push_back(stream);
  ++streams_opened_;
  Schedule(ArrivalTime(stream->pipes[0]), stream, 0,
           [this, weak = std::weak_ptr<Stream>(stream)] { OnConnectRequest(weak.lock()); });
  return std::make_unique<SimConnection>(*this, std::move(stream), 0);
}

// A connection request arrives at the other host, and the answer returns.
void SimNetwork::OnConnectRequest(const std::shared_ptr<Stream>& stream) {
  if (stream->closed[0]) return;
  const Endpoint& at = stream->endpoints[1];
  ListenState* const listener = FindListener(at);
  if (listener == nullptr) {
    Schedule(ArrivalTime(stream->pipes[1]), stream, 1,
             [this, raw = stream.get()] { Break(*raw, "connection refused"); });
    return;
  }
  stream->open[1] = true;
  listener->backlog.push_back(stream);
  Schedule(ArrivalTime(stream->pipes[1]), stream, 1, [raw = stream.get()] {
    raw->open[0] = true;
    raw->Wake(0);
  });
}

uint16_t SimNetwork::FreePort(const std::string& host) {
  do {
    next_port_ = next_port_ == 65535 ? 49152 : next_port_ + 1;
  } while (listeners_.count({host, next_port_}) > 0);
  return next_port_;
}

bool SimNetwork::PortTaken(const Endpoint& local, const Endpoint& remote) const {
  return std::ranges::any_of(streams_, [&](const std::weak_ptr<Stream>& weak) {
    const std::shared_ptr<Stream> stream = weak.lock();
    return stream != nullptr && stream->broken.empty() && !stream->closed[0] &&
           stream->endpoints[0] == local && stream->endpoints[1] == remote;
  });
}

void SimNetwork::Schedule(MonotonicNs time, std::shared_ptr<Stream> stream, int end,
                          std::function<void()> action) {
  events_.emplace(std::pair(time, next_event_++),
                  Event{.stream = std::move(stream), .end = end, .action = std::move(action)});
}

MonotonicNs SimNetwork::ArrivalTime(Pipe& pipe) {
  const auto delay = static_cast<int64_t>(Uniform(static_cast<uint64_t>(options_.min_delay_ns),
                                                  static_cast<uint64_t>(options_.max_delay_ns)));
  pipe.last_arrival = std::max(pipe.last_arrival, clock_.Now() + delay);
  return pipe.last_arrival;
}

size_t SimNetwork::Write(const std::shared_ptr<Stream>& stream, Pipe& pipe,
                         std::span<const iovec> pieces) {
  const int end = &pipe == &stream->pipes[0] ? 0 : 1;
  if (!stream->open[end]) return 0;
  std::vector<std::byte> bytes;
  const size_t room = options_.buffer_bytes - std::min(options_.buffer_bytes, pipe.held());
  for (const iovec& piece : pieces) {
    const auto* from = static_cast<const std::byte*>(piece.iov_base);
    const size_t take = std::min(piece.iov_len, room - bytes.size());
    bytes.insert(bytes.end(), from, from + take);
  }
  pipe.in_flight += bytes.size();
  bytes_written_[stream->hosts[end]] += bytes.size();
  for (size_t sent = 0; sent < bytes.size();) {
    const size_t size =
        std::min<size_t>(Uniform(1, options_.max_portion_bytes), bytes.size() - sent);
    std::vector<std::byte> portion(bytes.begin() + static_cast<ptrdiff_t>(sent),
                                   bytes.begin() + static_cast<ptrdiff_t>(sent + size));
    Schedule(ArrivalTime(pipe), stream, end,
             [this, raw = stream.get(), to = &pipe, end, portion = std::move(portion)] {
               to->in_flight -= portion.size();
               if (raw->closed[1 - end]) return;  // the reader has closed
               bytes_arrived_ += portion.size();
               to->arrived.insert(to->arrived.end(), portion.begin(), portion.end());
               raw->Wake(1 - end);
             });
    sent += size;
  }
  return bytes.size();
}

size_t SimNetwork::Read(Pipe& pipe, std::span<const iovec> pieces) {
  size_t got = 0;
  for (const iovec& piece : pieces) {
    const size_t take = std::min(piece.iov_len, pipe.arrived.size());
    const auto end = pipe.arrived.begin() + static_cast<ptrdiff_t>(take);
    std::copy(pipe.arrived.begin(), end, static_cast<std::byte*>(piece.iov_base));
    pipe.arrived.erase(pipe.arrived.begin(), end);
    got += take;
  }
  return got;
}

void SimNetwork::CloseEnd(const std::shared_ptr<Stream>& stream, int end) {
  stream->closed[end] = true;
  stream->wakers[end] = nullptr;
  stream->pipes[1 - end].arrived.clear();
  if (stream->closed[1 - end] || !stream->broken.empty()) return;
  Schedule(ArrivalTime(stream->pipes[end]), stream, end, [raw = stream.get(), end] {
    raw->pipes[end].end_arrived = true;
    raw->Wake(1 - end);
  });
}

void SimNetwork::Break(Stream& stream, const std::string& why) {
  stream.broken = why;
  for (const std::string& host : stream.hosts) changed_.insert(host);
  for (const int end : {0, 1}) stream.Wake(end);
}

uint64_t SimNetwork::Uniform(uint64_t lowest, uint64_t highest) {
  MCCS_CHECK(lowest <= highest);
  return lowest + random_() % (highest - lowest + 1);
}

}  // namespace mccs
