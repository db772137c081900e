#include "service/gpus/gpu_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>

#include "proto/same_message.h"

namespace mccs {

GpuWatch::GpuWatch(GpuWatchOptions options)
    : options_(std::move(options)), stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  thread_ = std::thread([this] { RunLoop(); });
}

GpuWatch::~GpuWatch() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = write(stop_.get(), &one, sizeof(one));
  thread_.join();
}

bool GpuWatch::StopsWithin(int64_t ns) const {
  pollfd fd = {.fd = stop_.get(), .events = POLLIN, .revents = 0};
  return poll(&fd, 1, static_cast<int>(ns / kNsPerMs)) != 0;
}

void GpuWatch::RunLoop() {
  std::optional<agent::v1::GpuSurvey> last;
  do {
    agent::v1::GpuSurvey survey = options_.reader->Read(stop_.get());
    if (StopsWithin(0)) return;
    AddGpuProblems(options_.needs, &survey);
    if (last.has_value() && IsSameMessage(*last, survey)) continue;
    options_.on_change(survey);
    last = std::move(survey);
  } while (!StopsWithin(options_.interval_ns));
}

}  // namespace mccs
