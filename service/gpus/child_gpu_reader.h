// Reads the GPUs in a process of its own, which writes a GpuSurvey to its output.
//
// NVML hangs or crashes with some sick GPUs, and a thread that hangs in the driver would keep a
// daemon from ending. A child that hangs is killed; if the kernel cannot end it, no other one is
// started until it has ended.
#ifndef MCCS_SERVICE_GPUS_CHILD_GPU_READER_H_
#define MCCS_SERVICE_GPUS_CHILD_GPU_READER_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "service/gpus/gpu_reader.h"

namespace mccs {

struct ChildGpuReaderOptions {
  std::vector<std::string> argv;  // argv[0]: path of the program
  // Without persistence mode, a driver takes some seconds for each GPU.
  int64_t timeout_ns = 20 * kNsPerSec;
};

class ChildGpuReader final : public GpuReader {
 public:
  explicit ChildGpuReader(ChildGpuReaderOptions options) : options_(std::move(options)) {}
  // Kills the child and does not wait for it.
  ~ChildGpuReader() override;

  agent::v1::GpuSurvey Read(int stop_fd) override;

 private:
  // Returns whether there is no child any more.
  bool Reap();
  // Gives the child a moment to end. Returns whether there is none any more.
  bool AwaitEnd();
  // Kills the child, and gives it a moment.
  void KillChild();
  std::string Start(int output);
  // Returns all output of the child, or an error message in `*why`.
  std::string Collect(int output, int stop_fd, std::string* why);

  const ChildGpuReaderOptions options_;
  const SystemClock clock_;
  pid_t child_ = 0;  // 0: none
  int status_ = 0;   // of the last child that was reaped
};

}  // namespace mccs

#endif  // MCCS_SERVICE_GPUS_CHILD_GPU_READER_H_
