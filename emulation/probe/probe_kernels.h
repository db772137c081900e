// The probe's own kernels (kernels/bodies.h) as typed functions that launch them.
//
// A GPU runs the image of kernels/probe_kernels.cu; on the emulation host versions are registered
// under the same names. The first launch in a process loads them, which creates the context.
#ifndef MCCS_EMULATION_PROBE_PROBE_KERNELS_H_
#define MCCS_EMULATION_PROBE_PROBE_KERNELS_H_

#include "emulation/probe/kernels/bodies.h"
#include "emulation/probe/probe.h"

extern "C" const unsigned char mccs_probe_kernels_image[];

namespace mccs::probe {

struct Shape {
  unsigned blocks = 1;
  unsigned threads = 32;
};

// Loads the image on the first call. THREAD: one at a time.
CUresult FindKernel(const char* name, CUfunction* function);
CUresult LaunchFunction(CUfunction function, cudaStream_t stream, Shape shape, void** parameters);

// Registers the host versions if libcuda.so.1 is the emulation's. Returns false if it rejects.
bool RegisterHostKernels();

template <typename... Arguments>
class Kernel {
 public:
  explicit constexpr Kernel(const char* name) : name_(name) {}
  CUresult Launch(cudaStream_t stream, Shape shape, Arguments... arguments) const {
    CUfunction function = nullptr;
    const CUresult found = FindKernel(name_, &function);
    return found == CUDA_SUCCESS ? LaunchOf(function, stream, shape, arguments...) : found;
  }
  static CUresult LaunchOf(CUfunction function, cudaStream_t stream, Shape shape,
                           Arguments... arguments) {
    void* parameters[] = {static_cast<void*>(&arguments)..., nullptr};
    return LaunchFunction(function, stream, shape, parameters);
  }
  const char* name() const { return name_; }

 private:
  const char* name_;
};

inline constexpr Kernel<const uint64_t*, uint64_t, uint64_t*, uint64_t*> kSpin{"probe_spin"};
inline constexpr Kernel<const uint64_t*, const uint64_t*, uint64_t*, uint64_t, uint64_t*, uint64_t,
                        uint64_t*>
    kCopy{"probe_copy"};
inline constexpr Kernel<const uint64_t*, uint64_t*, uint64_t, uint64_t> kEcho{"probe_echo"};
inline constexpr Kernel<uint64_t*, uint64_t*, const uint64_t*, uint64_t, uint64_t> kMeet{
    "probe_meet"};
inline constexpr Kernel<uint64_t*, const uint64_t*, uint64_t*> kStep{"probe_step"};
inline constexpr Kernel<uint64_t*, uint64_t> kMark{"probe_mark"};
inline constexpr Kernel<uint64_t, uint64_t*> kWork{"probe_work"};
inline constexpr Kernel<uint64_t, uint64_t*, uint64_t*, uint64_t*> kPauses{"probe_pauses"};
inline constexpr Kernel<const Unit*, Unit*, uint64_t> kStream{"probe_stream"};
inline constexpr Kernel<> kEmpty{"probe_empty"};
inline constexpr Kernel<ArgumentBytes<64>> kEmpty64{"probe_empty_64"};
inline constexpr Kernel<ArgumentBytes<4000>> kEmpty4000{"probe_empty_4000"};

}  // namespace mccs::probe

#endif  // MCCS_EMULATION_PROBE_PROBE_KERNELS_H_
