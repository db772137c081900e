// A device whose operations fail when the test says so, as those of a lost GPU. All others run on
// another device.
#ifndef MCCS_TESTS_UNIT_DEVICE_FAILING_DEVICE_H_
#define MCCS_TESTS_UNIT_DEVICE_FAILING_DEVICE_H_

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "service/device/device.h"
#include "service/device/interpreted_plan.h"

namespace mccs {

class FailingDevice final : public Device {
 public:
  explicit FailingDevice(std::unique_ptr<Device> inner) : inner_(std::move(inner)) {}

  // The next submitted operation is not executed, and its result is `error`.
  void FailNext(absl::Status error) { next_error_ = std::move(error); }

  // Until it is OK again, no memory can be allocated and no plan loaded, for this reason.
  void FailMemory(absl::Status error) { memory_error_ = std::move(error); }

  MemoryMapper& mapper() override { return inner_->mapper(); }
  absl::StatusOr<std::unique_ptr<Region>> Allocate(size_t bytes) override {
    if (!memory_error_.ok()) return memory_error_;
    return inner_->Allocate(bytes);
  }
  void Discard(std::span<std::byte> bytes) override { inner_->Discard(bytes); }
  absl::StatusOr<std::unique_ptr<DevicePlan>> Load(PlanToLoad plan) override {
    if (!memory_error_.ok()) return memory_error_;
    return InterpretedPlan::Make(*this, std::move(plan));
  }
  Submitted Submit(const MemOp& op, MemToken token) override {
    if (!next_error_.has_value()) return inner_->Submit(op, token);
    failed_.push_back({token, *std::exchange(next_error_, std::nullopt)});
    return Submitted::kStarted;
  }
  Polled Poll(std::span<Finished> finished) override {
    if (failed_.empty() || finished.empty()) return inner_->Poll(finished);
    reported_ = failed_.front().error;
    finished[0] = {.token = failed_.front().token, .error = &reported_};
    failed_.pop_front();
    return {.finished = 1};
  }
  uint64_t memory_bps() const override { return inner_->memory_bps(); }
  std::string Description() const override { return inner_->Description(); }

 private:
  struct Failed {
    MemToken token;
    absl::Status error;
  };

  const std::unique_ptr<Device> inner_;
  std::optional<absl::Status> next_error_;
  absl::Status memory_error_;
  std::deque<Failed> failed_;
  absl::Status reported_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_DEVICE_FAILING_DEVICE_H_
