#include "service/frontend/join_options.h"

namespace mccs {
namespace {

void SetHints(const wire::CommOptions& options, cluster::Hints* hints) {
  hints->set_min_channels(options.min_channels);
  hints->set_max_channels(options.max_channels);
  hints->set_buffer_bytes(options.buffer_bytes);
  hints->set_algorithms(TextOf(options.algorithms));
  hints->set_protocols(TextOf(options.protocols));
  if (options.traffic_class >= 0) {
    hints->set_traffic_class(static_cast<uint32_t>(options.traffic_class));
  }
  if (options.service_level >= 0) {
    hints->set_service_level(static_cast<uint32_t>(options.service_level));
  }
}

}  // namespace

void SetOptions(const wire::CommOptions& options, JoinRequest* join) {
  join->name = TextOf(options.name);
  join->timeout_ns = options.init_timeout_ms * kNsPerMs;
  join->warn_after_ns = options.warn_after_ms * kNsPerMs;
  SetHints(options, join->rank.mutable_hints());
}

}  // namespace mccs
