// Times and texts of what a check measures.
#ifndef MCCS_EMULATION_PROBE_FIGURES_H_
#define MCCS_EMULATION_PROBE_FIGURES_H_

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <string>
#include <vector>

namespace mccs::probe {

class Stopwatch {
 public:
  double us() const {
    return std::chrono::duration<double, std::micro>(Clock::now() - start_).count();
  }
  double ms() const { return us() / 1e3; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

// printf into a string of at most 500 bytes.
[[gnu::format(printf, 1, 2)]] inline std::string Text(const char* format, ...) {
  char text[501];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return text;
}

// "shortest 1.2, median 3.4, longest 5.6 µs". REQUIRES: not empty.
inline std::string Spread(std::vector<double> us) {
  std::sort(us.begin(), us.end());
  return Text("shortest %.2f, median %.2f, longest %.2f µs", us.front(), us[us.size() / 2],
              us.back());
}

inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace mccs::probe

#endif  // MCCS_EMULATION_PROBE_FIGURES_H_
