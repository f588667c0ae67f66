#!/bin/sh
# The app of `fastcgi-nines`: `NAME NOTES OPTIONS...` notes its process in NOTES and becomes NAME-info, which is
# `examples/fastcgi-info`. So a second process is seen, however short it lives.
echo $$ >>"$1"
shift
# A web server that runs as another user must be able to connect to the socket.
umask 0
exec "$0-info" "$@"
