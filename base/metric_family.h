// Builds Prometheus metric families. Names: prefix mccs_, base units, counters end in _total.
// Labels never contain a rank or a communicator's id, which would create new series for each job.
#ifndef MCCS_BASE_METRIC_FAMILY_H_
#define MCCS_BASE_METRIC_FAMILY_H_

#include <prometheus/metric_family.h>

#include <string>
#include <utility>
#include <vector>

namespace mccs {

using MetricLabels = std::vector<prometheus::ClientMetric::Label>;

// Collects families in the order of their Begin… calls.
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

}  // namespace mccs

#endif  // MCCS_BASE_METRIC_FAMILY_H_
