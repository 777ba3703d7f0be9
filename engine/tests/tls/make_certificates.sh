#!/bin/sh
# Makes the certificates of the tests of TLS: an authority of nobody's, and a server at 127.0.0.1 that it vouches for.
# They are valid for a hundred years from 2020 on, so that no clock of a test machine is before them.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
touch "$work/index"
cat >"$work/ca.conf" <<CONF
[ca]
default_ca = tests
[tests]
database = $work/index
new_certs_dir = $work
rand_serial = yes
default_md = sha256
policy = any
[any]
commonName = supplied
[authority]
basicConstraints = critical, CA:true
keyUsage = critical, keyCertSign
[server]
basicConstraints = critical, CA:false
subjectAltName = IP:127.0.0.1, DNS:localhost
CONF
key() { openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt; }
sign() { openssl ca -batch -notext -config "$work/ca.conf" -startdate 20200101000000Z -enddate 21200101000000Z "$@"; }
key >"$work/authority.key"
key >server.key
openssl req -new -key "$work/authority.key" -subj "/CN=engine tests" -out "$work/authority.csr"
openssl req -new -key server.key -subj "/CN=localhost" -out "$work/server.csr"
sign -selfsign -extensions authority -keyfile "$work/authority.key" -in "$work/authority.csr" -out authority.pem
sign -extensions server -keyfile "$work/authority.key" -cert authority.pem -in "$work/server.csr" -out server.pem
