#include "shim/submit/captured_work.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs::shim {
namespace {

// CUDA's thread calls it when the last graph reference to the lease ends.
void CUDA_CB DropLease(void* lease) { delete static_cast<std::shared_ptr<CaptureLease>*>(lease); }

// Transfers one reference to the graph.
absl::Status HandToGraph(const DriverApi& driver, CUgraph graph,
                         const std::shared_ptr<CaptureLease>& lease) {
  auto held = std::make_unique<std::shared_ptr<CaptureLease>>(lease);
  CUuserObject object;
  CUresult error =
      driver.UserObjectCreate(&object, held.get(), DropLease, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  if (error != CUDA_SUCCESS) return CudaError(driver, error, "cuUserObjectCreate");
  held.release();
  error = driver.GraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
  if (error == CUDA_SUCCESS) return absl::OkStatus();
  driver.UserObjectRelease(object, 1);
  return CudaError(driver, error, "cuGraphRetainUserObject");
}

absl::Status Enqueued(const DriverApi& driver, CUresult error) {
  if (error == CUDA_SUCCESS) return absl::OkStatus();
  return CudaError(driver, error, "cannot capture a fence");
}

}  // namespace

absl::StatusOr<StreamCapture> CaptureOf(const DriverApi& driver, CUstream stream) {
  StreamCapture capture;
  CUstreamCaptureStatus status;
  if (driver.StreamIsCapturing == nullptr ||
      driver.StreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
      status == CU_STREAM_CAPTURE_STATUS_NONE) {
    return capture;
  }
  if (!driver.captures_graphs()) {
    return absl::UnimplementedError(
        "the stream is being captured into a CUDA graph, but this driver lacks functions for that "
        "(cuStreamGetCaptureInfo_v3, user objects): install CUDA 12.3 or later");
  }
  if (CUresult error = driver.StreamGetCaptureInfo(stream, &status, &capture.id, &capture.graph,
                                                   nullptr, nullptr, nullptr);
      error != CUDA_SUCCESS) {
    return CudaError(driver, error, "cuStreamGetCaptureInfo");
  }
  if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
    return absl::UnknownError(
        "an earlier call invalidated the stream's capture into a CUDA graph; end it "
        "(cudaStreamEndCapture) and capture again");
  }
  return capture;
}

// ---- Slots --------------------------------------------------------------------------------------

std::optional<uint32_t> CapturedSlots::Take() {
  std::lock_guard lock(mutex_);
  if (!free_.empty()) {
    const uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  if (fresh_ == wire::kCapturedSlots) return std::nullopt;
  return fresh_++;
}

void CapturedSlots::Release(uint32_t slot) {
  std::lock_guard lock(mutex_);
  free_.push_back(slot);
}

// ---- Leases -------------------------------------------------------------------------------------

CaptureLease::CaptureLease(const std::shared_ptr<Session>& session,
                           std::shared_ptr<CapturedSlots> slots, uint32_t comm_handle)
    : session_(session),
      slots_(std::move(slots)),
      comm_handle_(comm_handle),
      number_(session->next_capture.fetch_add(1)) {}

CaptureLease::~CaptureLease() {
  if (const std::shared_ptr<Session> session = session_.lock()) {
    // The daemon must process this first: the slot's next group is sent later on the same socket.
    wire::ReleaseCapture message{};
    message.capture = number_;
    message.comm_handle = comm_handle_;
    session->client->SendOneWay(message);
    for (const auto& [base, bytes] : pinned_) session->buffers.leases().Unpin({base, bytes});
    for (auto& block : staging_) session->staging.Return(std::move(block));
  }
  for (const auto& [stream, place] : places_) slots_->Release(place.slot);
}

void CaptureLease::Pin(const wire::BufferRef& ref, uint64_t bytes) {
  const std::shared_ptr<Session> session = session_.lock();
  const std::optional<AddressRange> range = session->buffers.RangeOf(ref, bytes);
  if (!range) return;  // freed meanwhile; the daemon reports it
  ExportLeases& leases = session->buffers.leases();
  const auto [known, fresh] = pinned_.try_emplace(range->base, range->bytes);
  if (!fresh && known->second >= range->bytes) return;
  leases.Pin(*range);
  if (!fresh) leases.Unpin({range->base, std::exchange(known->second, range->bytes)});
}

std::optional<CapturedPlace> CaptureLease::PlaceOf(uint64_t stream_key) {
  const auto known = places_.find(stream_key);
  if (known != places_.end()) return known->second;
  const std::optional<uint32_t> slot = slots_->Take();
  if (!slot) return std::nullopt;
  return places_[stream_key] = {.slot = *slot, .group = 1};
}

absl::StatusOr<std::shared_ptr<CaptureLease>> Captures::LeaseOf(const StreamCapture& capture) {
  std::erase_if(leases_, [](const auto& entry) { return entry.second.expired(); });
  const auto known = leases_.find(capture.id);
  if (known != leases_.end()) {
    if (std::shared_ptr<CaptureLease> lease = known->second.lock()) return lease;
  }
  used_.store(true);
  auto lease = std::make_shared<CaptureLease>(session_, slots_, comm_handle_);
  MCCS_RETURN_IF_ERROR(HandToGraph(session_->driver, capture.graph, lease));
  leases_[capture.id] = lease;
  return lease;
}

std::shared_ptr<CaptureLease> Captures::Find(unsigned long long capture) const {
  const auto known = leases_.find(capture);
  return known == leases_.end() ? nullptr : known->second.lock();
}

bool Captures::alive() const {
  return std::any_of(leases_.begin(), leases_.end(),
                     [](const auto& entry) { return !entry.second.expired(); });
}

// ---- Word operations ----------------------------------------------------------------------------

absl::Status CaptureReady(const DriverApi& driver, const FencePage& page, CUstream stream,
                          const CapturedPlace& place) {
  // Writes the low half only: poison in the high half stays.
  MCCS_RETURN_IF_ERROR(
      Enqueued(driver, driver.StreamWriteValue32(stream, page.captured_done_address(place.slot), 0,
                                                 CU_STREAM_WRITE_VALUE_DEFAULT)));
  return Enqueued(driver, driver.StreamWriteValue32(stream, page.captured_ready_address(place.slot),
                                                    place.group, CU_STREAM_WRITE_VALUE_DEFAULT));
}

}  // namespace mccs::shim
