// Text from tenants' messages.
//
// THREAD: any.
#ifndef MCCS_SERVICE_FRONTEND_TENANT_TEXT_H_
#define MCCS_SERVICE_FRONTEND_TENANT_TEXT_H_

#include <cstddef>
#include <cstring>
#include <string>

namespace mccs {

// Converts a tenant's text for logs, peers and controller to printable ASCII. `field` may lack a
// terminator.
template <size_t n>
std::string TextOf(const char (&field)[n]) {
  std::string text(field, strnlen(field, n));
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_TENANT_TEXT_H_
