// Serves metrics to Prometheus by prometheus-cpp: GET /metrics in the text format.
//
// THREAD: it has its own threads, which call `collect`; the rest: the owner. They block the signals
// that the creating thread has blocked.
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
  // Called once per scrape, possibly by two threads at a time.
  using Collect = std::function<std::vector<prometheus::MetricFamily>()>;

  // Listens at `address` ("0.0.0.0:7401"; port 0: the system chooses). Debian's build of the
  // library supports only IPv4.
  // kUnavailable: the address is in use or not of this machine; the message has the remedy.
  // LIFETIME: what `collect` reads outlives the server.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(const std::string& address,
                                                              Collect collect);
  // Stops, and waits for scrapes in progress.
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
