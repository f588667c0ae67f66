#!/bin/sh
# The app of `fastcgi-nines`: `NAME NOTES OPTIONS...` appends its process id to NOTES and executes NAME-info, which is
# `examples/fastcgi-info`. So a second process is counted even if it ends at once.
echo $$ >>"$1"
shift
# A web server that runs as another user must be able to connect to the socket.
umask 0
exec "$0-info" "$@"
