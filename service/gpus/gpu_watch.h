// Reads the condition of this host's GPUs at the start and then once a minute, in a thread of its
// own, so that a repaired GPU needs no restart of the daemon.
#ifndef MCCS_SERVICE_GPUS_GPU_WATCH_H_
#define MCCS_SERVICE_GPUS_GPU_WATCH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "proto/agent.pb.h"
#include "service/gpus/gpu_problems.h"
#include "service/gpus/gpu_reader.h"

namespace mccs {

struct GpuWatchOptions {
  std::unique_ptr<GpuReader> reader;
  GpuNeeds needs;
  // Gets the first survey, and each that differs from the one before, with its problems. Called on
  // the watch's thread.
  std::function<void(const agent::v1::GpuSurvey&)> on_change;
  int64_t interval_ns = 60 * kNsPerSec;  // between the end of a reading and the next one
};

class GpuWatch {
 public:
  explicit GpuWatch(GpuWatchOptions options);
  // Stops and joins its thread; ends a reading that runs. From then on `on_change` is not called.
  ~GpuWatch();

  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

 private:
  void RunLoop();
  // Returns true when the watch stops, else false after `ns`.
  bool StopsWithin(int64_t ns) const;

  const GpuWatchOptions options_;
  const UniqueFd stop_;  // readable after the stop
  std::thread thread_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_GPUS_GPU_WATCH_H_
