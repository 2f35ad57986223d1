#!/usr/bin/env bash
# Checks the files in deploy/ with the programs that read them. What is not installed here is named, and not checked.
# `npm test` checks what needs none of them: YAML, ports, probes, and the configurations inside.
set -uo pipefail
cd "$(dirname "$0")/.."
failed=0
skipped=()

# check TITLE PROGRAM COMMAND...: runs the command where the program is installed.
check() {
  local title=$1 program=$2 output
  shift 2
  if ! command -v "$program" >/dev/null; then
    skipped+=("$title: $program is not installed")
  elif output=$("$@" 2>&1); then
    echo "ok: $title"
  else
    echo "failed: $title"
    printf '%s\n' "$output"
    failed=1
  fi
}

docker_runs() { docker info >/dev/null 2>&1; }

unit() {
  # Problems of other units of this machine, and of programs that are not installed here, are not those of the file.
  ! systemd-analyze verify deploy/systemd/tollgate.service 2>&1 | grep 'tollgate.service' | grep -v 'is not executable'
}

kubernetes() {
  # Without a cluster kubectl cannot map kinds; kustomize reads the objects all the same.
  local dir
  dir=$(mktemp -d)
  cp deploy/kubernetes/tollgate.yaml "$dir"
  printf 'resources: [tollgate.yaml]\n' >"$dir/kustomization.yaml"
  kubectl kustomize "$dir"
  local code=$?
  rm -r "$dir"
  return $code
}

# The upstream names of the snippet are those of compose.yaml, which do not resolve here.
nginx_snippet() {
  local dir
  dir=$(mktemp -d)
  sed 's/gateway-[ab]:8080/127.0.0.1:8080/' deploy/proxies/nginx.conf >"$dir/tollgate.conf"
  {
    printf 'pid %s/pid; error_log stderr; events {} http { access_log off; include %s/tollgate.conf;\n' "$dir" "$dir"
    # The folders that nginx is built with may belong to another user.
    for each in client_body proxy fastcgi uwsgi scgi; do printf '%s_temp_path %s/%s;\n' "$each" "$dir" "$each"; done
    echo '}'
  } >"$dir/nginx.conf"
  nginx -t -p "$dir" -c "$dir/nginx.conf"
  local code=$?
  rm -r "$dir"
  return $code
}

# Its servers do not resolve here either.
haproxy_file() {
  local file
  file=$(mktemp)
  sed 's/gateway-[ab]:8080/127.0.0.1:8080/' deploy/proxies/haproxy.cfg >"$file"
  haproxy -c -f "$file"
  local code=$?
  rm "$file"
  return $code
}

check 'systemd unit' systemd-analyze unit
check 'Kubernetes objects' kubectl kubernetes
check 'Helm chart: lint' helm helm lint deploy/helm/tollgate --set-file networks.ethereum-mainnet=configs/networks/ethereum-mainnet.yaml
check 'Helm chart: template' helm helm template t deploy/helm/tollgate --set-file networks.ethereum-mainnet=configs/networks/ethereum-mainnet.yaml
check 'nginx snippet' nginx nginx_snippet
check 'alert rules and scrape configuration' promtool promtool check config deploy/prometheus/prometheus.yaml
check 'Caddyfile' caddy caddy validate --adapter caddyfile --config deploy/proxies/Caddyfile
check 'HAProxy file' haproxy haproxy_file
if command -v docker >/dev/null && docker compose version >/dev/null 2>&1; then
  check 'compose file' docker docker compose -f deploy/docker/compose.yaml config --quiet
else
  skipped+=('compose file: docker compose is not installed')
fi
if docker_runs; then
  check 'image: build' docker docker build -q -f deploy/docker/Dockerfile -t tollgate-check .
  check 'image: check' docker docker run --rm --read-only --env ETHEREUM_MAINNET_URL=http://127.0.0.1:1 tollgate-check check --config /etc/tollgate
else
  skipped+=('image: no container engine runs')
fi
for each in "${skipped[@]}"; do echo "not checked: $each"; done
exit $failed
