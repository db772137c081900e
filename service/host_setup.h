// Parts and options of a daemon that its configuration and the host's hardware determine.
//
// THREAD: main's, before the engine starts. They may block: for drivers, and for the kernel.
#ifndef MCCS_SERVICE_HOST_SETUP_H_
#define MCCS_SERVICE_HOST_SETUP_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/endpoint.h"
#include "base/log.h"
#include "base/random.h"
#include "base/reactor.h"
#include "service/config.h"
#include "service/device/kernel_image.h"
#include "service/rdma_devices.h"
#include "topology/host_discovery.h"

namespace mccs {

// Chooses between RDMA and TCP, and logs why. kFailedPrecondition: the configuration requires RDMA.
// `wake` wakes the engine. LIFETIME: all but `config` and `survey` outlive the transport.
absl::StatusOr<OpenedRdma> OpenTransport(const Config& config, const RdmaSurvey& survey,
                                         Reactor& reactor, std::function<void()> wake,
                                         Random& random, const Clock& clock, Log& log);

// Threads for work on host memory, in addition to the engine's.
int WorkersFor(const Config& config);

// The address that peers connect to, without `advertise`. A daemon that listens on all addresses
// advertises the first one that is not loopback.
std::string AddressFor(const Endpoint& listen, const HostInventory& inventory);

// The GPUs that programs see: with `device: gpu` those of the machine. If it has none, and with
// `device: host`, they are emulated, and so are their PCI addresses.
absl::Status NameGpus(const Config& config, HostInventory* inventory);

// The image that this program contains.
absl::StatusOr<KernelImage> RunCommandsImage();

// Kernels cannot run grids, so that their all-to-alls are direct exchanges where the configuration
// does not demand otherwise.
ChoiceParameters AlgorithmsFor(const Config& config);

}  // namespace mccs

#endif  // MCCS_SERVICE_HOST_SETUP_H_
