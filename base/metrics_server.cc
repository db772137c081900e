#include "base/metrics_server.h"

#include <netdb.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"

namespace mccs {
namespace {

// Two, so that a slow client does not block another one.
constexpr size_t kThreads = 2;

class Collector final : public prometheus::Collectable {
 public:
  explicit Collector(MetricsServer::Collect collect) : collect_(std::move(collect)) {}
  std::vector<prometheus::MetricFamily> Collect() const override { return collect_(); }

 private:
  const MetricsServer::Collect collect_;
};

constexpr auto kRetryInterval = std::chrono::milliseconds(5);

// Opens a connection to this server and closes it. Failure does not matter.
void WakeListener(const std::string& endpoint) {
  const size_t colon = endpoint.rfind(':');
  const std::string host = endpoint.substr(0, colon);
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), endpoint.substr(colon + 1).c_str(), &hints, &found) != 0) return;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  const UniqueFd socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  (void)connect(socket.get(), found->ai_addr, found->ai_addrlen);
}

}  // namespace

struct MetricsServer::Impl {
  std::shared_ptr<Collector> collector;
  std::unique_ptr<prometheus::Exposer> exposer;  // last: destroyed before what it calls
};

MetricsServer::MetricsServer(std::unique_ptr<Impl> impl, std::string endpoint)
    : impl_(std::move(impl)), endpoint_(std::move(endpoint)) {}

// The library's listener checks for the stop only every two seconds, or at a new connection.
MetricsServer::~MetricsServer() {
  std::atomic<bool> stopped = false;
  std::thread stop([&] {
    impl_->exposer.reset();
    stopped = true;
  });
  while (!stopped) {
    WakeListener(endpoint_);
    std::this_thread::sleep_for(kRetryInterval);
  }
  stop.join();
}

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& address,
                                                                    Collect collect) {
  auto impl = std::make_unique<Impl>();
  impl->collector = std::make_shared<Collector>(std::move(collect));
  // The library throws if it cannot listen, without the reason.
  try {
    impl->exposer = std::make_unique<prometheus::Exposer>(address, kThreads);
    impl->exposer->RegisterCollectable(impl->collector);
  } catch (const std::exception&) {
    impl->exposer.reset();
  }
  const std::vector<int> ports =
      impl->exposer != nullptr ? impl->exposer->GetListeningPorts() : std::vector<int>();
  if (ports.empty()) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve metrics on ", address,
                     ": the port is in use, or it is not an IPv4 address of this machine; choose "
                     "another address with metrics_listen, or omit it"));
  }
  std::string endpoint = absl::StrCat(address.substr(0, address.rfind(':')), ":", ports.front());
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(impl), std::move(endpoint)));
}

}  // namespace mccs
