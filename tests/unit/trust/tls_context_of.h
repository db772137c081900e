// The TLS context of files, for tests.
#ifndef MCCS_TESTS_UNIT_TRUST_TLS_CONTEXT_OF_H_
#define MCCS_TESTS_UNIT_TRUST_TLS_CONTEXT_OF_H_

#include <cstdint>

#include "trust/tls_context.h"
#include "trust/tls_files.h"

namespace mccs {

inline TlsContext ContextOf(const TlsFiles& files, int64_t now_s) {
  const TlsTexts texts = *ReadTlsTexts(files);
  return *MakeTlsContext(texts, *CheckTlsTexts(files, texts, now_s));
}

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_TRUST_TLS_CONTEXT_OF_H_
