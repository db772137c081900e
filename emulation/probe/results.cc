// The results of checks as JSON.

#include <cstdio>

#include "emulation/probe/figures.h"
#include "emulation/probe/runner.h"

namespace mccs::probe {
namespace {

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char character : text) {
    if (character == '"' || character == '\\') {
      quoted += '\\';
      quoted += character;
    } else if (static_cast<unsigned char>(character) < 0x20) {
      quoted += Text("\\u%04x", static_cast<unsigned>(character));
    } else {
      quoted += character;
    }
  }
  return quoted + "\"";
}

std::string JsonOf(const Result& result) {
  return "{\"name\": " + Quoted(result.check->name) +
         ", \"outcome\": " + Quoted(NameOf(result.outcome.verdict)) +
         ", \"text\": " + Quoted(result.outcome.text) +
         Text(", \"seconds\": %.3f", result.seconds) +
         ", \"assumption\": " + Quoted(result.check->assumption) + "}";
}

}  // namespace

const char* NameOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass:
      return "PASS";
    case Verdict::kSkip:
      return "SKIP";
    case Verdict::kFail:
      break;
  }
  return "FAIL";
}

bool WriteJson(const std::string& path, const std::vector<Result>& results, size_t remaining) {
  std::string json = "{\"checks\": [";
  int counts[3] = {0, 0, 0};
  for (const Result& result : results) {
    json += (&result == results.data() ? "\n  " : ",\n  ") + JsonOf(result);
    ++counts[static_cast<int>(result.outcome.verdict)];
  }
  json += Text("\n], \"passed\": %d, \"failed\": %d, \"skipped\": %d, \"remaining\": %zu}\n",
               counts[0], counts[1], counts[2], remaining);
  const std::string unfinished = path + ".part";
  FILE* const file = fopen(unfinished.c_str(), "w");
  if (file == nullptr) return false;
  const bool written = fwrite(json.data(), 1, json.size(), file) == json.size();
  return (fclose(file) == 0) && written && rename(unfinished.c_str(), path.c_str()) == 0;
}

}  // namespace mccs::probe
