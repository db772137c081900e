#include "service/communicator/lanes/operation_signature.h"

#include <bit>

#include "absl/strings/str_cat.h"

namespace mccs {

OperationSignature SignatureOf(const PostedOperation& operation, uint64_t number) {
  OperationSignature signature;
  signature.number = number;
  signature.count = operation.count;
  signature.root = operation.root.value();
  signature.kind = operation.kind;
  signature.type = operation.type;
  signature.redop = operation.redop;
  return signature;
}

SliceTag ToTag(const OperationSignature& signature) { return std::bit_cast<SliceTag>(signature); }

OperationSignature FromTag(const SliceTag& tag) { return std::bit_cast<OperationSignature>(tag); }

std::string Describe(const OperationSignature& signature) {
  std::string text =
      absl::StrCat(std::string(Name(signature.kind)), " #", signature.number, " count ",
                   signature.count, " type ", std::string(Name(signature.type)));
  if (Reduces(signature.kind)) absl::StrAppend(&text, " op ", std::string(Name(signature.redop)));
  if (HasRoot(signature.kind)) absl::StrAppend(&text, " root ", signature.root);
  return text;
}

}  // namespace mccs
