#!/bin/sh
# Made the certificates beside it, once: `sh make.sh` in this directory makes others (OpenSSL 3).
# They are for tests on 127.0.0.1 and good for nothing else, so that their keys are no secret. authority.pem has signed
# all but the one that signed itself; its key was thrown away.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: > "$work/index"
cat > "$work/config" <<CONFIG
[ca]
default_ca = own
[own]
database = $work/index
new_certs_dir = $work
rand_serial = yes
default_md = sha256
policy = any
[any]
commonName = supplied
[authority]
basicConstraints = critical, CA:true
[here]
subjectAltName = IP:127.0.0.1
[elsewhere]
subjectAltName = DNS:node.test
CONFIG

request() { # name
  openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$work/$1.key"
  openssl req -new -key "$work/$1.key" -subj "/CN=$1" -out "$work/$1.csr"
}
sign() { # name, section, when it ends, then who signs
  name=$1 section=$2 until=$3
  shift 3
  openssl ca -batch -notext -config "$work/config" -extensions "$section" -startdate 20200101000000Z -enddate "$until" \
    -in "$work/$name.csr" -out "$work/$name.crt" "$@" 2> /dev/null
}
end=20991231235959Z
for name in authority valid other-host expired self-signed; do request "$name"; done
sign authority authority "$end" -selfsign -keyfile "$work/authority.key"
set -- -cert "$work/authority.crt" -keyfile "$work/authority.key"
sign valid here "$end" "$@"
sign other-host elsewhere "$end" "$@"
sign expired here 20210101000000Z "$@"
sign self-signed here "$end" -selfsign -keyfile "$work/self-signed.key"
cp "$work/authority.crt" authority.pem
for name in valid other-host expired self-signed; do cat "$work/$name.key" "$work/$name.crt" > "$name.pem"; done
