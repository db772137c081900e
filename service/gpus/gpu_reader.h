// Where the daemon learns the condition of its GPUs.
#ifndef MCCS_SERVICE_GPUS_GPU_READER_H_
#define MCCS_SERVICE_GPUS_GPU_READER_H_

#include "proto/agent.pb.h"

namespace mccs {

class GpuReader {
 public:
  virtual ~GpuReader() = default;

  // Fills in all of GpuSurvey except `problems`. Returns within a bounded time, also if the driver
  // hangs, and early when `stop_fd` becomes readable. THREAD: one.
  virtual agent::v1::GpuSurvey Read(int stop_fd) = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_GPUS_GPU_READER_H_
