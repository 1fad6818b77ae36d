#!/bin/sh
# Makes front.pem in the folder $1 (default /data), a self-signed certificate for localhost with its key, unless it is there.
# One made here is replaced when it ends within 30 days; any other certificate is kept.
# Clients must be told to trust it; for a public name, put the certificate chain and the key of that name into front.pem
# instead.
set -eu
cd "${1:-/data}"
made_here="subject=CN=localhost
issuer=CN=localhost"
if [ -s front.pem ]; then
    [ "$(openssl x509 -in front.pem -noout -subject -issuer -nameopt RFC2253)" = "$made_here" ] || exit 0
    openssl x509 -in front.pem -noout -checkend $((30 * 24 * 3600)) > /dev/null && exit 0
fi
umask 027
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 825 -subj /CN=localhost \
    -addext "subjectAltName=DNS:localhost,DNS:front,IP:127.0.0.1" -keyout key.pem -out certificate.pem
cat certificate.pem key.pem > front.pem.new
mv front.pem.new front.pem
rm certificate.pem key.pem
