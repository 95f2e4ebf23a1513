#!/usr/bin/env bash
# libfaketime 0.9.10 (Debian 0.9.10-2.1): with FAKETIME_DONT_FAKE_MONOTONIC=1, the setting for
# programs that measure durations by the monotonic clock, time.sleep of Python 3.11 raises OSError.
# Without it, time.sleep works, but the monotonic clock is shifted too.
#
# Seen with a shift of 0 seconds:
#   monotonic clock faked: slept
#   monotonic clock not faked: OSError: [Errno 22] Invalid argument
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq libfaketime=0.9.10-2.1
dpkg -x libfaketime_*.deb .
library=$(find "$folder" -name libfaketime.so.1)
echo +0 > shift
cat > sleep.py <<'PYTHON'
import time

try:
    time.sleep(0.1)
    print("slept")
except OSError as error:
    print(f"OSError: {error}")
PYTHON
sleep_with() { env "$@" FAKETIME_TIMESTAMP_FILE="$folder/shift" LD_PRELOAD="$library" python3.11 sleep.py; }
faked=$(sleep_with FAKETIME_DONT_FAKE_MONOTONIC=0)
real=$(sleep_with FAKETIME_DONT_FAKE_MONOTONIC=1)
echo "monotonic clock faked: $faked"
echo "monotonic clock not faked: $real"
[ "$faked" = slept ] && [ "$real" = "OSError: [Errno 22] Invalid argument" ]
