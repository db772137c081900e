#include "service/probe/raw_prober.h"

#include <arpa/inet.h>
#include <linux/icmp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/probe/probe_packet.h"
#include "service/probe/probe_run.h"

namespace mccs {
namespace {

// ICMP messages read at a time. The socket receives those of all processes.
constexpr int kMaxAnswersPerRead = 64;
// Answers are shorter: they quote one of our packets and add some words.
constexpr size_t kMaxReplyBytes = 2048;

sockaddr_in ToSockaddr(uint32_t address) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_addr.s_addr = htonl(address);
  return out;
}

absl::StatusOr<UniqueFd> RawSocket(int protocol) {
  UniqueFd fd(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));
  if (fd.valid()) return fd;
  if (errno == EPERM || errno == EACCES) {
    return absl::PermissionDeniedError(
        "mccsd cannot open raw sockets; run it as root, or give it the capability CAP_NET_RAW");
  }
  return absl::ErrnoToStatus(errno, "cannot open a raw socket");
}

// The sockets for one list.
class Sockets {
 public:
  absl::Status Open() {
    MCCS_ASSIGN_OR_RETURN(answers_, RawSocket(IPPROTO_ICMP));
    icmp_filter filter{};
    filter.data = ~(1u << ICMP_TIME_EXCEEDED);
    if (setsockopt(answers_.get(), SOL_RAW, ICMP_FILTER, &filter, sizeof(filter)) != 0)
      return absl::ErrnoToStatus(errno, "cannot filter a raw socket for ICMP \"time exceeded\"");
    return absl::OkStatus();
  }

  // kUnavailable: temporary, as when a queue is full.
  absl::Status Send(const ProbePacket& packet) {
    MCCS_ASSIGN_OR_RETURN(const int fd, SenderFrom(packet.flow.source_address));
    const std::vector<std::byte> bytes = BuildProbe(packet);
    const sockaddr_in to = ToSockaddr(packet.flow.destination_address);
    if (sendto(fd, bytes.data(), bytes.size(), 0, reinterpret_cast<const sockaddr*>(&to),
               sizeof(to)) >= 0)
      return absl::OkStatus();
    if (errno == EAGAIN || errno == ENOBUFS || errno == EINTR)
      return absl::UnavailableError("the send queue is full");
    return absl::FailedPreconditionError(absl::StrCat(
        "a packet to ", FormatIpv4(packet.flow.destination_address),
        " cannot be sent: ", std::string(absl::ErrnoToStatus(errno, "sendto").message())));
  }

  int fd() const { return answers_.get(); }

  template <typename Take>
  void OnAnswer(Take take) {
    std::array<std::byte, kMaxReplyBytes> bytes;
    for (int i = 0; i < kMaxAnswersPerRead; ++i) {
      const ssize_t count = recv(answers_.get(), bytes.data(), bytes.size(), 0);
      if (count < 0) return;
      if (const auto answer = ParseProbeAnswer({bytes.data(), static_cast<size_t>(count)}))
        take(*answer);
    }
  }

 private:
  // A socket bound to the flow's address, so that source-based routes apply.
  absl::StatusOr<int> SenderFrom(uint32_t address) {
    const auto known = senders_.find(address);
    if (known != senders_.end()) return known->second.get();
    MCCS_ASSIGN_OR_RETURN(UniqueFd fd, RawSocket(IPPROTO_RAW));
    const sockaddr_in own = ToSockaddr(address);
    if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&own), sizeof(own)) != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat(FormatIpv4(address), " is not an address of this host"));
    }
    return senders_.emplace(address, std::move(fd)).first->second.get();
  }

  UniqueFd answers_;
  std::map<uint32_t, UniqueFd> senders_;
};

}  // namespace

RawProber::RawProber() : wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

RawProber::~RawProber() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = write(wake_.get(), &one, sizeof(one));
  if (thread_.joinable()) thread_.join();
}

void RawProber::Probe(std::vector<ProbeTask> tasks, Done done) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    if (waiting_.size() < kMaxWaiting) {
      waiting_.push_back({std::move(tasks), std::move(done)});
      if (!thread_.joinable()) thread_ = std::thread([this] { RunLoop(); });
      changed_.notify_all();
      return;
    }
  }
  done(std::vector<ProbeOutcome>(tasks.size(),
                                 {.hops = {}, .why_not = "too many probes are waiting"}));
}

void RawProber::RunLoop() {
  for (;;) {
    Work work;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    std::vector<ProbeOutcome> outcomes = Run(work.tasks);
    if (stopping_) return;
    work.done(std::move(outcomes));
  }
}

std::vector<ProbeOutcome> RawProber::Run(const std::vector<ProbeTask>& tasks) {
  Sockets sockets;
  if (const absl::Status status = sockets.Open(); !status.ok()) {
    return std::vector<ProbeOutcome>(tasks.size(),
                                     {.hops = {}, .why_not = std::string(status.message())});
  }
  ProbeRun run(tasks, &random_);
  while (!stopping_ && !run.IsDone(clock_.Now())) {
    if (const std::optional<ProbePacket> packet = run.Next(clock_.Now())) {
      const absl::Status sent = sockets.Send(*packet);
      if (!sent.ok() && !absl::IsUnavailable(sent))
        run.FailFlow(packet->flow, std::string(sent.message()));
    } else {
      Wait(sockets.fd(), run.Deadline(clock_.Now()));
    }
    sockets.OnAnswer([&](const ProbeAnswer& answer) { run.OnAnswer(answer); });
  }
  return run.Outcomes();
}

void RawProber::Wait(int fd, MonotonicNs until) const {
  const int64_t left_ns = std::max<int64_t>(0, until - clock_.Now());
  const timespec left = {.tv_sec = left_ns / kNsPerSec, .tv_nsec = left_ns % kNsPerSec};
  std::array<pollfd, 2> watched = {pollfd{.fd = fd, .events = POLLIN, .revents = 0},
                                   pollfd{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
  ppoll(watched.data(), watched.size(), &left, nullptr);
}

}  // namespace mccs
