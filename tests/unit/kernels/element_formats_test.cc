// Compares the conversions of narrow floats with CUDA's own, in its headers' form for the host. The
// GPU's instructions, which the device code uses, have the same results by CUDA's documentation.
#include "kernels/element_formats.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace mccs {
namespace element_formats_test {

using kernels::BitsOf;

float CudaDecode(kernels::Float16Format, uint32_t bits) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}
float CudaDecode(kernels::Bfloat16Format, uint32_t bits) {
  return __bfloat162float(__ushort_as_bfloat16(static_cast<unsigned short>(bits)));
}
float CudaDecode(kernels::Float8E4m3Format, uint32_t bits) {
  return __half2float(
      __half(__nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(bits), __NV_E4M3)));
}
float CudaDecode(kernels::Float8E5m2Format, uint32_t bits) {
  return __half2float(
      __half(__nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(bits), __NV_E5M2)));
}
uint32_t CudaEncode(kernels::Float16Format, float value) {
  return __half_as_ushort(__float2half_rn(value));
}
uint32_t CudaEncode(kernels::Bfloat16Format, float value) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}
uint32_t CudaEncode(kernels::Float8E4m3Format, float value) {
  return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
}
uint32_t CudaEncode(kernels::Float8E5m2Format, float value) {
  return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E5M2);
}

template <class Format>
void CheckDecode() {
  constexpr uint32_t kValues = 1u << (8 * sizeof(typename Format::Stored));
  for (uint32_t bits = 0; bits < kValues; ++bits) {
    const float value = Format::Decode(static_cast<typename Format::Stored>(bits));
    const float expected = CudaDecode(Format(), bits);
    if (std::isnan(value) && std::isnan(expected)) continue;  // CUDA's has a fixed payload
    ASSERT_EQ(BitsOf<uint32_t>(value), BitsOf<uint32_t>(expected)) << std::hex << bits;
  }
}

template <class Format>
void CheckEncode(float value) {
  // CUDA's float16 NaN is 0x7fff; ours keeps the payload.
  if (std::is_same_v<Format, kernels::Float16Format> && std::isnan(value)) {
    EXPECT_TRUE(std::isnan(Format::Decode(Format::Encode(value))));
    return;
  }
  ASSERT_EQ(Format::Encode(value), CudaEncode(Format(), value))
      << std::hex << BitsOf<uint32_t>(value);
}

// All upper halves of a float32, with lower halves at and next to the points where rounding
// changes.
template <class Format>
void CheckEncodes() {
  for (uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const uint32_t lower : {0x0000u, 0x0001u, 0x0fffu, 0x1000u, 0x1001u, 0x1fffu, 0x2000u,
                                 0x3000u, 0x7fffu, 0x8000u, 0x8001u, 0xf000u, 0xffffu}) {
      CheckEncode<Format>(BitsOf<float>(upper << 16 | lower));
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(NarrowFormats, DecodeAsCuda) {
  CheckDecode<kernels::Float16Format>();
  CheckDecode<kernels::Bfloat16Format>();
  CheckDecode<kernels::Float8E4m3Format>();
  CheckDecode<kernels::Float8E5m2Format>();
}

TEST(NarrowFormats, EncodeFloat16AsCuda) { CheckEncodes<kernels::Float16Format>(); }
TEST(NarrowFormats, EncodeBfloat16AsCuda) { CheckEncodes<kernels::Bfloat16Format>(); }
TEST(NarrowFormats, EncodeFloat8e4m3AsCuda) { CheckEncodes<kernels::Float8E4m3Format>(); }
TEST(NarrowFormats, EncodeFloat8e5m2AsCuda) { CheckEncodes<kernels::Float8E5m2Format>(); }

}  // namespace element_formats_test
}  // namespace mccs
