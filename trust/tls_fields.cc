#include "trust/tls_fields.h"

namespace mccs {

void ReadTlsFiles(YamlReader tls, TlsFiles* files) {
  const std::pair<const char*, std::string*> fields[] = {
      {"authority", &files->authority}, {"certificate", &files->certificate}, {"key", &files->key}};
  for (const auto& [key, path] : fields) tls.Field(key, path);
  if (files->empty()) return;
  for (const auto& [key, path] : fields) {
    if (path->empty()) tls.Reject(key, "tls needs authority, certificate and key");
  }
}

}  // namespace mccs
