#include "emulation/probe/shared_memory.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

namespace mccs::probe {
namespace {

constexpr CUmemAllocationHandleType kDescriptorType = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
// An allocation of this size shares its block with no other one, which a handle would open, too.
constexpr size_t kOwnBlockBytes = 2 << 20;

// A message of one byte with room for a descriptor.
struct DescriptorMessage {
  DescriptorMessage() {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
  }
  DescriptorMessage(const DescriptorMessage&) = delete;

  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
};

}  // namespace

bool SendDescriptor(int socket, int fd) {
  DescriptorMessage message;
  cmsghdr* header = CMSG_FIRSTHDR(&message.header);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  return sendmsg(socket, &message.header, MSG_NOSIGNAL) == 1;
}

int ReceiveDescriptor(int socket) {
  DescriptorMessage message;
  if (recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC) != 1) return -1;
  const cmsghdr* header = CMSG_FIRSTHDR(&message.header);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return -1;
  int fd = -1;
  memcpy(&fd, CMSG_DATA(header), sizeof(fd));
  return fd;
}

Outcome SecondGpu() {
  Peer asking([](Peer&) {
    int devices = 0;
    int can = 0;
    PROBE_CALL(cudaGetDeviceCount(&devices));
    if (devices < 2) return Skip("there is one GPU");
    PROBE_CALL(cudaDeviceCanAccessPeer(&can, 1, 0));
    return can != 0 ? Pass() : Skip("GPU 1 cannot access the memory of GPU 0");
  });
  return asking.Join();
}

CUmemAllocationProp DeviceMemory(int device, CUmemAllocationHandleType types) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = types;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return properties;
}

Outcome MapForDevice(CUmemGenericAllocationHandle handle, size_t bytes, int device,
                     CUdeviceptr* address) {
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, device},
                               CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  PROBE_CALL(cuMemAddressReserve(address, bytes, 0, 0, 0));
  PROBE_CALL(cuMemMap(*address, bytes, 0, handle, 0));
  PROBE_CALL(cuMemSetAccess(*address, bytes, &access, 1));
  return Pass();
}

Outcome SharedAllocation::Make(SharingMethod method, size_t bytes) {
  method_ = method;
  if (method == SharingMethod::kIpc) {
    bytes_ = (bytes + kOwnBlockBytes - 1) / kOwnBlockBytes * kOwnBlockBytes;
    PROBE_CALL(cuMemAlloc(&address_, bytes_));
    return Pass();
  }
  const CUmemAllocationProp properties = DeviceMemory(0, kDescriptorType);
  size_t page = 0;
  PROBE_CALL(cuMemGetAllocationGranularity(&page, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  bytes_ = (bytes + page - 1) / page * page;
  PROBE_CALL(cuMemCreate(&handle_, bytes_, &properties, 0));
  return MapForDevice(handle_, bytes_, 0, &address_);
}

Outcome SharedAllocation::Send(Peer& peer) const {
  SharedDescription description{.handle = {}, .bytes = bytes_};
  if (method_ == SharingMethod::kIpc) {
    PROBE_CALL(cuIpcGetMemHandle(&description.handle, address_));
  } else {
    PROBE_CALL(cuMemExportToShareableHandle(&description.fd, handle_, kDescriptorType, 0));
  }
  PROBE_EXPECT(peer.Send(&description, sizeof(description)), "the second process does not respond");
  if (method_ == SharingMethod::kIpc) return Pass();
  const bool sent = SendDescriptor(peer.socket(), description.fd);
  close(description.fd);
  PROBE_EXPECT(sent, "cannot send the descriptor");
  return Pass();
}

Outcome ReceiveShared(Peer& self, SharingMethod method, SharedDescription* description) {
  PROBE_EXPECT(self.Receive(description, sizeof(*description)), "no description received");
  description->fd = method == SharingMethod::kIpc ? -1 : ReceiveDescriptor(self.socket());
  PROBE_EXPECT(method == SharingMethod::kIpc || description->fd >= 0, "no descriptor received");
  return Pass();
}

Outcome OpenDescription(const SharedDescription& description, SharingMethod method, int device,
                        CUdeviceptr* address) {
  if (method == SharingMethod::kIpc) {
    PROBE_CALL(cuIpcOpenMemHandle(address, description.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    return Pass();
  }
  CUmemGenericAllocationHandle handle = 0;
  PROBE_CALL(cuMemImportFromShareableHandle(
      &handle, reinterpret_cast<void*>(static_cast<intptr_t>(description.fd)), kDescriptorType));
  close(description.fd);
  return MapForDevice(handle, description.bytes, device, address);
}

Outcome CloseShared(const SharedDescription& description, SharingMethod method,
                    CUdeviceptr address) {
  if (method == SharingMethod::kIpc) {
    PROBE_CALL(cuIpcCloseMemHandle(address));
  } else {
    PROBE_CALL(cuMemUnmap(address, description.bytes));
  }
  return Pass();
}

Outcome OpenShared(Peer& self, SharingMethod method, int device, uint64_t** words) {
  SharedDescription description;
  CUdeviceptr address = 0;
  PROBE_PASSES(ReceiveShared(self, method, &description));
  PROBE_PASSES(OpenDescription(description, method, device, &address));
  *words = reinterpret_cast<uint64_t*>(address);
  return Pass();
}

}  // namespace mccs::probe
