#include "service/transport/rdma/ib_source_port.h"

#include <dlfcn.h>
#include <sys/utsname.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <tuple>

namespace mccs {
namespace {

// The part of libmlx5 that is needed, loaded like libibverbs itself.
struct Mlx5 {
  bool (*is_supported)(ibv_device* device) = nullptr;
  int (*modify_udp_sport)(ibv_qp* queue_pair, uint16_t port) = nullptr;

  static const Mlx5& Get() {
    static const Mlx5 library = [] {
      Mlx5 found;
      void* const handle = dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL);
      if (handle == nullptr) return found;
      found.is_supported =
          reinterpret_cast<decltype(is_supported)>(dlsym(handle, "mlx5dv_is_supported"));
      found.modify_udp_sport =
          reinterpret_cast<decltype(modify_udp_sport)>(dlsym(handle, "mlx5dv_modify_qp_udp_sport"));
      return found;
    }();
    return library;
  }
};

// Since Linux 5.18, rdma_rxe computes the port from the flow label, like the drivers of NICs.
bool SoftRoceUsesFlowLabels() {
  utsname kernel{};
  int major = 0;
  int minor = 0;
  if (uname(&kernel) != 0 || std::sscanf(kernel.release, "%d.%d", &major, &minor) != 2) return true;
  return std::tie(major, minor) >= std::tuple(5, 18);
}

}  // namespace

SourcePortMeans SourcePortMeansOf(ibv_context* device) {
  const Mlx5& mlx5 = Mlx5::Get();
  if (mlx5.modify_udp_sport != nullptr && mlx5.is_supported != nullptr &&
      mlx5.is_supported(device->device)) {
    return SourcePortMeans::kModify;
  }
  // Only devices in software have a parent interface.
  const std::string sysfs = device->device->ibdev_path;
  std::error_code error;
  const bool software = std::filesystem::exists(sysfs + "/parent", error);
  return software && !SoftRoceUsesFlowLabels() ? SourcePortMeans::kNumber
                                               : SourcePortMeans::kFlowLabel;
}

uint32_t FlowLabelFor(uint16_t port) {
  constexpr uint32_t kOfFirstPort = 0x4001;  // 0 has another meaning
  if (port == 0) return 0;
  const uint32_t low = port & 0x3fffu;
  return low != 0 ? low : kOfFirstPort;
}

uint16_t PortOfFlowLabel(uint32_t label) {
  return label == 0 ? 0 : ibv_flow_label_to_udp_sport(label);
}

uint16_t PortOfNumber(QueuePairNumber number) {
  constexpr uint32_t kGoldenRatio = 0x61c88647;
  constexpr int kBits = 14;
  return static_cast<uint16_t>(kFirstRocePort + (number.value() * kGoldenRatio >> (32 - kBits)));
}

bool ModifySourcePort(ibv_qp* queue_pair, uint16_t port) {
  return Mlx5::Get().modify_udp_sport(queue_pair, port) == 0;
}

}  // namespace mccs
