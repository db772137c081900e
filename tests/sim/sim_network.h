// An in-memory network: hosts, streams with delays and bounded buffers, and failures of them. The
// same seed and the same calls give the same run.
//
// Each simulated host has a Network of its own: HostNetwork("10.0.0.1"). Bytes written to a stream
// travel in order, in portions of random size with random delays. They arrive when the simulated
// clock reaches their time (AdvanceTo).
//
// clang-format off
//            ┌─────────── ≤ buffer_bytes, not yet read ───────────┐
//   writer ──► in flight: portions with an arrival time │ arrived ──► reader
// clang-format on
//
#ifndef MCCS_TESTS_SIM_SIM_NETWORK_H_
#define MCCS_TESTS_SIM_SIM_NETWORK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "service/transport/network.h"

namespace mccs {

// A clock that only the test advances.
//
// THREAD: one.
class SimClock final : public Clock {
 public:
  MonotonicNs Now() const override { return now_; }
  // REQUIRES: now ≥ Now().
  void Set(MonotonicNs now) {
    MCCS_CHECK(now >= now_);
    now_ = now;
  }

 private:
  MonotonicNs now_ = kNsPerSec;  // not 0, so that 0 is never the current time
};

// Another clock's time plus an offset, in ns.
class OffsetClock final : public Clock {
 public:
  // LIFETIME: `of` outlives this.
  OffsetClock(const Clock& of, int64_t offset_ns) : of_(of), offset_ns_(offset_ns) {}
  MonotonicNs Now() const override { return of_.Now() + offset_ns_; }
  // The other clock's time when this clock shows `time`.
  MonotonicNs ToBaseClock(MonotonicNs time) const { return time - offset_ns_; }
  // Jumps forward, as after the suspension of a virtual machine. REQUIRES: ns ≥ 0.
  void Jump(int64_t ns) {
    MCCS_CHECK(ns >= 0);
    offset_ns_ += ns;
  }

 private:
  const Clock& of_;
  int64_t offset_ns_;
};

struct SimNetworkOptions {
  int64_t min_delay_ns = 5 * kNsPerUs;
  int64_t max_delay_ns = 100 * kNsPerUs;
  size_t max_portion_bytes = 16 * 1024;  // largest portion of one write; the smallest is 1
  size_t buffer_bytes = 64 * 1024;       // per stream and direction, written and not yet read
};

// A network on which operations take milliseconds.
inline constexpr SimNetworkOptions kSlowNetwork{.min_delay_ns = kNsPerMs,
                                                .max_delay_ns = 2 * kNsPerMs,
                                                .max_portion_bytes = 64u << 10,
                                                .buffer_bytes = 64u << 10};

class SimNetwork {
 public:
  // LIFETIME: `clock` outlives this; this outlives every stream and listener. AdvanceTo moves the
  // clock.
  SimNetwork(SimClock& clock, uint64_t seed, const SimNetworkOptions& options = {});
  ~SimNetwork();
  SimNetwork(const SimNetwork&) = delete;

  // The network as `host` sees it, created on first use. A host's name is its first address.
  Network& HostNetwork(const std::string& host);
  // Adds an address to `host`, as of one more NIC.
  void AddAddress(const std::string& host, const std::string& address);

  // When the next byte, stream or end of stream arrives; nullopt if nothing is in transit.
  std::optional<MonotonicNs> NextEventTime() const;
  // Delivers everything that is due by `time`, in order, and sets the clock to `time`.
  // REQUIRES: time ≥ the clock's.
  void AdvanceTo(MonotonicNs time);

  // Breaks every open stream between two hosts, in either order of arguments; bytes in transit are
  // lost. Both ends see it at once. Returns the number of streams.
  int Cut(const std::string& a, const std::string& b);
  // Breaks only the stream that was opened from this end. False if there is none.
  bool CutStream(const Endpoint& opened_from);
  // Breaks every stream of a host and closes its listeners, as a power failure does.
  int CutHost(const std::string& host);
  // Partitions two hosts: until Heal, bytes between them are delayed and not lost.
  void Partition(const std::string& a, const std::string& b);
  // Delays only what `from` sends to `to`, until Heal.
  void PartitionOneWay(const std::string& from, const std::string& to);
  // Bytes from `from` to `to` are delayed.
  bool Partitioned(const std::string& from, const std::string& to) const {
    return partitioned_.contains({from, to});
  }
  void Heal(const std::string& a, const std::string& b);
  // The host has no descriptor left (EMFILE) or has some again: it opens no streams and listeners,
  // and incoming streams wait until it accepts them.
  void SetOutOfDescriptors(const std::string& host, bool is);
  // The link of the NIC with this address. Without it, bytes are delayed as by a partition.
  enum class Link : uint8_t {
    kUp,
    kDown,  // its host sees it (HasLink)
    kLost,  // its host does not
  };
  void SetLink(const std::string& address, Link link);
  // Nothing that the first NIC sends reaches the other.
  bool Blocked(const std::string& from, const std::string& to) const;

  // Streams that are open now; both ends count as one.
  size_t open_streams() const;
  // Attempts so far to open a stream.
  size_t streams_opened() const { return streams_opened_; }
  // Streams to or from an address of which exactly one end has closed.
  size_t half_closed_streams(const std::string& address) const;
  // The DSCP of each end of the open streams.
  struct StreamMark {
    Endpoint local, remote;
    uint8_t dscp = 0;
  };
  std::vector<StreamMark> marks() const;
  // Bytes that arrived at an end that was still open.
  uint64_t bytes_arrived() const { return bytes_arrived_; }
  // Bytes that a host has written to its streams.
  uint64_t bytes_written(const std::string& host) const {
    const auto known = bytes_written_.find(host);
    return known == bytes_written_.end() ? 0 : known->second;
  }

 private:
  friend class SimConnection;
  friend class SimListener;
  friend class SimHostNetwork;
  struct Pipe;
  struct Stream;
  struct ListenState;

  using HostPair = std::pair<std::string, std::string>;
  // The bytes that this end sends are delayed.
  bool Blocked(const Stream& stream, int end) const;
  void ReleaseDelayed();
  absl::Status CheckDescriptors(const std::string& host, std::string_view what) const;

  absl::StatusOr<std::unique_ptr<Connection>> Open(const std::string& from, const Endpoint& to,
                                                   const ConnectOptions& options);
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& host, const Endpoint& at);
  // The host that has this address; the address itself if it was not added.
  const std::string& HostOf(const std::string& address) const;
  ListenState* FindListener(const Endpoint& at) const;
  uint16_t FreePort(const std::string& host);
  bool PortTaken(const Endpoint& local, const Endpoint& remote) const;

  // Schedules the arrival of what an end of a stream has sent; delayed by a partition.
  void Schedule(MonotonicNs time, std::shared_ptr<Stream> stream, int end,
                std::function<void()> action);
  MonotonicNs ArrivalTime(Pipe& pipe);
  size_t Write(const std::shared_ptr<Stream>& stream, Pipe& pipe, std::span<const iovec> pieces);
  size_t Read(Pipe& pipe, std::span<const iovec> pieces);
  void CloseEnd(const std::shared_ptr<Stream>& stream, int end);
  void Break(Stream& stream, const std::string& why);
  void OnConnectRequest(const std::shared_ptr<Stream>& stream);
  uint64_t Uniform(uint64_t lowest, uint64_t highest);

  struct Event {
    std::shared_ptr<Stream> stream;
    int end;  // that has sent it
    std::function<void()> action;
  };

  SimClock& clock_;
  const SimNetworkOptions options_;
  std::mt19937_64 random_;
  std::map<std::string, std::unique_ptr<Network>> hosts_;
  std::map<std::string, std::string> host_of_;  // by additional address
  // By host name and port; listeners at one additional address only, by that address.
  std::map<std::pair<std::string, uint16_t>, ListenState*> listeners_;
  std::vector<std::weak_ptr<Stream>> streams_;
  std::map<std::pair<MonotonicNs, uint64_t>, Event> events_;
  std::vector<Event> delayed_;                // delayed by a partition, in order
  std::set<HostPair> partitioned_;            // sender and receiver
  std::set<std::string> out_of_descriptors_;  // hosts
  size_t streams_opened_ = 0;
  std::map<std::string, Link> links_;  // by address; others are up
  std::set<std::string> changed_;      // hosts whose streams became readable or writable
  uint64_t next_event_ = 0;
  uint64_t bytes_arrived_ = 0;
  std::map<std::string, uint64_t> bytes_written_;  // by host
  uint16_t next_port_ = 49152;
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_SIM_NETWORK_H_
