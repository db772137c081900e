// Functions that GPU kernels share with the rest: marked so that nvcc compiles them for both.
#ifndef MCCS_BASE_PORTABLE_H_
#define MCCS_BASE_PORTABLE_H_

#ifdef __CUDACC__
#define MCCS_HOST_DEVICE __host__ __device__
#else
#define MCCS_HOST_DEVICE
#endif

namespace mccs {

// std::min is no function of the device.
template <typename T>
MCCS_HOST_DEVICE constexpr T Least(T a, T b) {
  return b < a ? b : a;
}

}  // namespace mccs

#endif  // MCCS_BASE_PORTABLE_H_
