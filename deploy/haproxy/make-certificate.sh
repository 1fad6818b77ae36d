#!/bin/sh
# Makes front.pem in the folder $1 (default /data), a self-signed certificate for localhost with its key, unless it is there.
# Clients must be told to trust it; for a public name, put the certificate chain and the key of that name into front.pem
# instead.
set -eu
cd "${1:-/data}"
[ -s front.pem ] && exit 0
umask 027
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 825 -subj /CN=localhost \
    -addext "subjectAltName=DNS:localhost,DNS:front,IP:127.0.0.1" -keyout key.pem -out certificate.pem
cat certificate.pem key.pem > front.pem.new
mv front.pem.new front.pem
rm certificate.pem key.pem
