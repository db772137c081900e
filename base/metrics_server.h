// Serves numbers to Prometheus: GET /metrics at an address of this machine, in its text format, by
// prometheus-cpp.
//
// THREAD: it has its own, which call `collect`; the rest: the owner. They take no signals that the
// creating thread has blocked.
#ifndef MCCS_BASE_METRICS_SERVER_H_
#define MCCS_BASE_METRICS_SERVER_H_

#include <prometheus/metric_family.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mccs {

class MetricsServer {
 public:
  // Called once for each scrape, perhaps by two threads at a time.
  using Collect = std::function<std::vector<prometheus::MetricFamily>()>;

  // Listens at `address` ("0.0.0.0:7401"; port 0: the system chooses). Debian's build of the library
  // knows IPv4 alone.
  // kUnavailable: the address is taken or not ours; the text says what to do.
  // LIFETIME: what `collect` looks at outlives the server.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(const std::string& address,
                                                              Collect collect);
  // Stops, and waits for scrapes that are under way.
  ~MetricsServer();

  // "address:port", with the port that it listens on.
  const std::string& endpoint() const { return endpoint_; }

 private:
  struct Impl;
  MetricsServer(std::unique_ptr<Impl> impl, std::string endpoint);

  std::unique_ptr<Impl> impl_;
  std::string endpoint_;
};

}  // namespace mccs

#endif  // MCCS_BASE_METRICS_SERVER_H_
