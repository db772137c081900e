#!/bin/sh
# Checks the exports of libnccl.so.2. Usage: exports_test.sh LIBRARY LIST
#   LIST: names without the "nccl" prefix that must be exported, as ncclX (weak) and pncclX (strong).
set -eu
library=$1
list=$2
failed=0
complain() { echo "FAILED: $*"; failed=1; }

nm -D --defined-only "$library" | awk '{print $2 " " $3}' | sort > "${TMPDIR:-/tmp}/exports.$$"
trap 'rm -f "${TMPDIR:-/tmp}/exports.$$" "${TMPDIR:-/tmp}/wanted.$$"' EXIT
grep -v '^#' "$list" | grep . | awk '{print "W nccl" $1; print "T pnccl" $1}' | sort \
  > "${TMPDIR:-/tmp}/wanted.$$"
difference=$(diff "${TMPDIR:-/tmp}/wanted.$$" "${TMPDIR:-/tmp}/exports.$$") ||
  complain "exports differ (< wanted, > found):
$difference"

ldd "$library" | grep -E 'stdc\+\+|libgcc_s|absl|grpc|protobuf|libcuda|libcudart' &&
  complain "$library depends on a library that the program may lack"
readelf -d "$library" | grep -q 'soname: \[libnccl.so.2\]' || complain "wrong SONAME"
readelf -d "$library" | grep -qE 'R(UN)?PATH' && complain "the library has a search path"
nm -D --undefined-only "$library" | grep -E ' cu[A-Z]| cuda[A-Z]' &&
  complain "CUDA is linked instead of looked up"
[ "$failed" = 0 ] && echo "ok: $(wc -l < "${TMPDIR:-/tmp}/exports.$$") symbols"
exit "$failed"
