#include "conformance/checked_call.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

namespace conformance {
namespace {

constexpr size_t kGuardBytes = 64;
// Offsets are in elements and smaller than this in bytes.
constexpr size_t kLargestOffsetBytes = 64;
constexpr auto kGuard = std::byte{0xa5};

}  // namespace

size_t CallBuffers::CapacityFor(size_t bytes) {
  return bytes + 2 * kGuardBytes + kLargestOffsetBytes;
}

CallBuffers::CallBuffers(Test* test, size_t bytes)
    : CallBuffers(test, test->NewBuffer(CapacityFor(bytes)), test->NewBuffer(CapacityFor(bytes))) {}

CallBuffers::CallBuffers(Test* test, DeviceBuffer send, DeviceBuffer receive)
    : test_(test), send_(send), receive_(receive) {}

bool CallBuffers::Fill(const Call& call, const Placement& placement, const Group& group,
                       uint64_t salt) {
  call_ = call;
  placement_ = placement;
  group_ = group;
  salt_ = salt;
  if (!test_->ok()) return false;
  const size_t unit = call.type->bytes;
  const size_t begin = kGuardBytes + placement.offset_elements * unit;
  const size_t send_bytes = SendElements(call, group.rank, group.size) * unit;
  const size_t receive_bytes = ReceiveElements(call, group.rank, group.size) * unit;
  const InPlaceLayout layout = LayInPlace(call, group.rank, group.size);

  const Inputs inputs(call, group.size, salt);
  std::vector<std::byte> input(send_bytes);
  for (size_t i = 0; i < send_bytes / unit; ++i) {
    collective_perf::Encode(*call.type, inputs.At(group.rank, i), input.data() + i * unit);
  }
  const size_t both = placement.in_place ? layout.elements * unit : 0;
  send_before_.assign(begin + std::max(send_bytes, both) + kGuardBytes, kGuard);
  receive_before_.assign(begin + receive_bytes + kGuardBytes, kGuard);
  const size_t send_begin = begin + (placement.in_place ? layout.send_at * unit : 0);
  std::copy(input.begin(), input.end(), send_before_.begin() + send_begin);
  send_at_ = send_.data + send_begin;
  receive_at_ =
      placement.in_place ? send_.data + begin + layout.receive_at * unit : receive_.data + begin;
  CUDA_OK(*test_, cudaMemcpyAsync(send_.data, send_before_.data(), send_before_.size(),
                                  cudaMemcpyHostToDevice, group.stream));
  if (!placement.in_place) {
    CUDA_OK(*test_, cudaMemcpyAsync(receive_.data, receive_before_.data(), receive_before_.size(),
                                    cudaMemcpyHostToDevice, group.stream));
  }
  return test_->ok();
}

bool CallBuffers::Post(const Call& call, const Placement& placement, const Group& group,
                       uint64_t salt) {
  if (!Fill(call, placement, group, salt)) return false;
  return test_->ExpectResult(
      ncclSuccess, conformance::Post(call, send_at_, receive_at_, group.comm, group.stream),
      ToText(call).c_str());
}

std::string CallBuffers::Title() const {
  return ToText(call_) + (placement_.in_place ? ", in place" : "") + " over " +
         std::to_string(group_.size) + " ranks, offset " +
         std::to_string(placement_.offset_elements);
}

bool CallBuffers::Verify(const Location& where) {
  if (!test_->ok()) return false;
  return VerifyResult(where) && VerifyBytes(send_, send_before_, "send", where) &&
         (placement_.in_place || VerifyBytes(receive_, receive_before_, "receive", where));
}

// Compares everything except the result. `before` must contain the result if that is in `buffer`.
bool CallBuffers::VerifyBytes(const DeviceBuffer& buffer, const std::vector<std::byte>& before,
                              const char* which, const Location& where) {
  std::vector<std::byte> now(before.size());
  CUDA_OK(*test_, cudaMemcpy(now.data(), buffer.data, now.size(), cudaMemcpyDeviceToHost));
  for (size_t i = 0; test_->ok() && i < now.size(); ++i) {
    if (now[i] == before[i]) continue;
    test_->Fail("expected " + Title() + " to leave byte " + std::to_string(i) + " of the " + which +
                    " buffer's allocation unchanged",
                where);
  }
  return test_->ok();
}

bool CallBuffers::VerifyResult(const Location& where) {
  const size_t unit = call_.type->bytes;
  const size_t elements = ReceiveElements(call_, group_.rank, group_.size);
  std::vector<std::byte> result(elements * unit);
  if (elements == 0) return true;
  CUDA_OK(*test_, cudaMemcpy(result.data(), receive_at_, result.size(), cudaMemcpyDeviceToHost));
  const Inputs inputs(call_, group_.size, salt_);
  const double tolerance = AverageTolerance(call_, group_.size);
  for (size_t i = 0; test_->ok() && i < elements; ++i) {
    const double expected = Expected(call_, inputs, group_.size, group_.rank, i);
    const double actual = collective_perf::Decode(*call_.type, result.data() + i * unit);
    if (std::fabs(actual - expected) <= tolerance) continue;
    test_->Fail("expected " + Title() + " to return " + std::to_string(expected) + " at " +
                    std::to_string(i) + ", got " + std::to_string(actual),
                where);
  }
  // Only the result may differ; the caller compares the other bytes.
  std::vector<std::byte>& image = placement_.in_place ? send_before_ : receive_before_;
  const std::byte* base = placement_.in_place ? send_.data : receive_.data;
  std::copy(result.begin(), result.end(), image.begin() + (receive_at_ - base));
  return test_->ok();
}

bool CallBuffers::Check(const Call& call, const Placement& placement, const Group& group,
                        uint64_t salt, const Location& where) {
  return Post(call, placement, group, salt) && test_->Wait(group.stream, where) && Verify(where);
}

}  // namespace conformance
