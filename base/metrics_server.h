// Metrics for Prometheus by prometheus-cpp: families, and GET /metrics in the text format.
#ifndef MCCS_BASE_METRICS_SERVER_H_
#define MCCS_BASE_METRICS_SERVER_H_

#include <prometheus/metric_family.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace mccs {

using MetricLabels = std::vector<prometheus::ClientMetric::Label>;

// Collects families in the order of their Begin… calls. Names: prefix mccs_, base units, counters
// end in _total. Labels never contain a rank or a communicator's id, which would create new series
// for each job.
class MetricFamilies {
 public:
  void BeginCounter(std::string name, std::string help) {
    families_.push_back({std::move(name), std::move(help), prometheus::MetricType::Counter, {}});
  }
  void BeginGauge(std::string name, std::string help) {
    families_.push_back({std::move(name), std::move(help), prometheus::MetricType::Gauge, {}});
  }
  void BeginHistogram(std::string name, std::string help) {
    families_.push_back({std::move(name), std::move(help), prometheus::MetricType::Histogram, {}});
  }

  // Adds a series to the last family. REQUIRES: a family was begun, for AddHistogram of that type.
  void Add(MetricLabels labels, double value) {
    prometheus::ClientMetric& metric = families_.back().metric.emplace_back();
    metric.label = std::move(labels);
    metric.counter.value = value;
    metric.gauge.value = value;
  }
  void Add(double value) { Add({}, value); }
  void AddHistogram(MetricLabels labels, prometheus::ClientMetric::Histogram histogram) {
    prometheus::ClientMetric& metric = families_.back().metric.emplace_back();
    metric.label = std::move(labels);
    metric.histogram = std::move(histogram);
  }

  std::vector<prometheus::MetricFamily> Take() { return std::move(families_); }

 private:
  std::vector<prometheus::MetricFamily> families_;
};

// THREAD: it has its own threads, which call `collect`; the rest: the owner. They block the signals
// that the creating thread has blocked.
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
