// Runs one collective and compares every byte that it may, and may not, have written.
#ifndef TESTS_CONFORMANCE_CHECKED_CALL_H_
#define TESTS_CONFORMANCE_CHECKED_CALL_H_

#include <cstddef>
#include <vector>

#include "conformance/collective_call.h"
#include "conformance/reference.h"
#include "conformance/test.h"

namespace conformance {

// The communicator and stream of a call: usually the world's.
struct Group {
  ncclComm_t comm = nullptr;
  int rank = 0;
  int size = 1;
  cudaStream_t stream = nullptr;
};

// Two device buffers that calls use in turn. Each writable area is surrounded by guard bytes, which
// a call must not change.
class CallBuffers {
 public:
  // `bytes`: of the largest buffer of any call, without guards and offset.
  CallBuffers(Test* test, size_t bytes);
  // Uses memory of the test; each buffer has CapacityFor(bytes).
  CallBuffers(Test* test, DeviceBuffer send, DeviceBuffer receive);
  static size_t CapacityFor(size_t bytes);

  struct Placement {
    bool in_place = false;
    size_t offset_elements = 0;  // of the buffers from a well aligned address
  };

  // Fills the inputs and posts the call. The caller then calls Test::Wait on the group's stream,
  // and Verify.
  bool Post(const Call& call, const Placement& placement, const Group& group, uint64_t salt);
  // Fills the inputs; the caller posts the call with `send` and `receive`.
  bool Fill(const Call& call, const Placement& placement, const Group& group, uint64_t salt);
  const void* send() const { return send_at_; }
  void* receive() const { return receive_at_; }
  // REQUIRES: the stream's work is done.
  bool Verify(const Location& where = Location::current());
  // Post, wait, verify.
  bool Check(const Call& call, const Placement& placement, const Group& group, uint64_t salt,
             const Location& where = Location::current());

 private:
  bool VerifyBytes(const DeviceBuffer& buffer, const std::vector<std::byte>& before,
                   const char* which, const Location& where);
  bool VerifyResult(const Location& where);
  std::string Title() const;

  Test* const test_;
  DeviceBuffer send_;
  DeviceBuffer receive_;
  // Of the current call.
  Call call_;
  Placement placement_;
  Group group_;
  uint64_t salt_ = 0;
  std::byte* send_at_ = nullptr;
  std::byte* receive_at_ = nullptr;
  std::vector<std::byte> send_before_;
  std::vector<std::byte> receive_before_;
};

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_CHECKED_CALL_H_
