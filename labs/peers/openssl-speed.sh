#!/bin/sh
# Prints the signatures that one core makes in a second with a type of key, and the time of one.
set -eu
# The last line is the result: `rsa 2048 bits 0.000512s 0.000015s 1952.4 65331.2`, with signatures and verifications per second at its end.
line=$(openssl speed -seconds 1 "$1" 2>/dev/null | tail -n 1)
rate=$(echo "$line" | awk '{ print $(NF - 1) }')
echo "signatures_per_s $rate"
echo "$rate" | awk '{ printf "time_s %.9f\n", 1 / $1 }'
