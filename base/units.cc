#include "base/units.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

constexpr const char* kByteUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};

// SI prefixes of bit/s.
constexpr const char* kBitRatePrefixes[] = {"", "k", "M", "G", "T"};

std::string WithoutTrailingZeros(std::string number) {
  number.erase(number.find_last_not_of('0') + 1);
  if (number.back() == '.') number.pop_back();
  return number;
}

std::optional<uint64_t> UnitFactor(std::string_view unit) {
  if (unit.empty()) return 1;
  uint64_t factor = 1;
  for (const std::string_view known : kByteUnits) {
    const bool prefix_only = known.size() > 1 && unit == known.substr(0, 1);
    if (unit == known || prefix_only) return factor;
    factor *= 1024;
  }
  return std::nullopt;
}

// The power of 1000 of "Gbit/s" or "Gbps"; nothing for other units.
std::optional<size_t> BitRatePrefix(std::string_view unit) {
  for (const std::string_view base : {"bit/s", "bps"}) {
    if (!unit.ends_with(base)) continue;
    unit.remove_suffix(base.size());
    if (unit == "K") unit = "k";
    const auto known = std::find(std::begin(kBitRatePrefixes), std::end(kBitRatePrefixes), unit);
    if (known == std::end(kBitRatePrefixes)) return std::nullopt;
    return static_cast<size_t>(known - std::begin(kBitRatePrefixes));
  }
  return std::nullopt;
}

}  // namespace

std::string FormatBytes(uint64_t bytes) {
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kByteUnits)) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f", value);
  return WithoutTrailingZeros(text) + " " + kByteUnits[unit];
}

std::optional<uint64_t> ParseBytes(std::string_view text) {
  const size_t digits = text.find_first_not_of("0123456789.");
  const std::string number(text.substr(0, digits));
  std::string_view unit = digits == std::string_view::npos ? "" : text.substr(digits);
  if (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  const std::optional<uint64_t> factor = UnitFactor(unit);
  if (number.empty() || !factor) return std::nullopt;

  uint64_t whole = 0;
  if (absl::SimpleAtoi(number, &whole)) {
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(whole, *factor, &bytes)) return std::nullopt;
    return bytes;
  }
  double value = 0;
  if (number.find('.') == std::string::npos || !absl::SimpleAtod(number, &value))
    return std::nullopt;
  const double bytes = value * static_cast<double>(*factor);
  if (bytes != std::floor(bytes) || bytes >= 0x1p63) return std::nullopt;
  return static_cast<uint64_t>(bytes);
}

std::string FormatBitRate(double bits_per_second) {
  double value = bits_per_second;
  size_t unit = 0;
  while (value >= 1000 && unit + 1 < std::size(kBitRatePrefixes)) {
    value /= 1000;
    ++unit;
  }
  char text[64];
  std::snprintf(text, sizeof(text), "%.3f", value);
  return absl::StrCat(WithoutTrailingZeros(text), " ", kBitRatePrefixes[unit], "bit/s");
}

std::optional<uint64_t> ParseBitRate(std::string_view text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view number = text.substr(0, digits);
  std::string_view unit = text.substr(digits);
  if (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  const std::optional<size_t> prefix = BitRatePrefix(unit);
  if (!prefix) return std::nullopt;
  // Integer arithmetic, because decimal fractions such as 0.3 are inexact in binary.
  size_t decimals = 3 * *prefix;
  const size_t point = std::min(number.find('.'), number.size());
  std::string whole(number.substr(0, point));
  std::string_view fraction = number.substr(std::min(point + 1, number.size()));
  if (whole.empty() || (point < number.size() && fraction.empty())) return std::nullopt;
  while (!fraction.empty() && fraction.back() == '0') fraction.remove_suffix(1);
  if (fraction.size() > decimals) return std::nullopt;
  whole.append(fraction).append(decimals - fraction.size(), '0');
  uint64_t bits = 0;
  if (!absl::SimpleAtoi(whole, &bits)) return std::nullopt;
  return bits;
}

std::string FormatMilliseconds(int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g ms", static_cast<double>(ns) / 1e6);
  return text;
}

std::string FormatAge(int64_t ns) {
  if (ns < 1'000'000'000) return absl::StrCat(ns < 0 ? 0 : ns / 1'000'000, " ms");
  struct Unit {
    int64_t seconds;
    const char* name;
  };
  static constexpr Unit kUnits[] = {{86'400, "d"}, {3'600, "h"}, {60, "min"}, {1, "s"}};
  int64_t left = ns / 1'000'000'000;
  std::string out;
  int shown = 0;
  for (const Unit& unit : kUnits) {
    const int64_t n = left / unit.seconds;
    left %= unit.seconds;
    if (n > 0) absl::StrAppend(&out, out.empty() ? "" : " ", n, " ", unit.name);
    if ((shown > 0 || n > 0) && ++shown == 2) break;
  }
  return out;
}

}  // namespace mccs
