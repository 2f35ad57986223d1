import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, readdirSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t from '../support/tap.ts'
import { parse, parseAllDocuments } from 'yaml'
import { plugins } from '../../plugins/index.ts'
import { commandLoaders } from '../../src/cli/commands.ts'
import { healthCommand } from '../../src/cli/health.ts'
import { loadConfig } from '../../src/config/load.ts'
import { createAdminApp } from '../../src/server/admin.ts'
import type { AdminOptions } from '../../src/server/admin.ts'
import { openLog } from '../../src/services/log.ts'
import { valueAt } from '../../src/util/json-path.ts'
import { runCommand } from '../cli/run-command.ts'
import { writeConfig } from '../config/config-fixture.ts'
import { rootDir } from '../tools/source-files.ts'

const read = (file: string): string => readFileSync(join(rootDir, file), 'utf8')

const methodTable = { 'methods/ethereum.yaml': read('configs/methods/ethereum.yaml') }
const ethereum = { 'networks/ethereum-mainnet.yaml': read('configs/networks/ethereum-mainnet.yaml') }
const env = { ETHEREUM_MAINNET_URL: 'http://127.0.0.1:1', TOLLGATE_STORE: 'redis://redis:6379' }

/** The objects of the Kubernetes file, by kind and name. */
const objects = parseAllDocuments(read('deploy/kubernetes/tollgate.yaml')).map(document => document.toJS() as unknown)
const objectNamed = (kind: string, name: string): unknown =>
  objects.find(object => valueAt(object, ['kind']) === kind && valueAt(object, ['metadata', 'name']) === name)
const dataOf = (name: string) => valueAt(objectNamed('ConfigMap', name), ['data']) as Readonly<Record<string, string>> // of a ConfigMap
const values = parse(read('deploy/helm/tollgate/values.yaml')) as Readonly<Record<string, unknown>>

/** The configurations that deploy/ contains or builds. */
const configurations: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  image: { ...methodTable, ...ethereum, 'gateway.yaml': read('deploy/docker/gateway.yaml') },
  Kubernetes: {
    ...methodTable,
    'gateway.yaml': dataOf('tollgate')['gateway.yaml'] ?? '',
    ...Object.fromEntries(Object.entries(dataOf('tollgate-networks')).map(([file, text]) => [`networks/${file}`, text])),
  },
  Helm: { ...methodTable, ...ethereum, 'gateway.yaml': JSON.stringify(values['gateway']) },
}

t.test('the configurations in deploy/ have no problem and no warning, and listen where probes and ports expect it', async t => {
  for (const [name, files] of Object.entries(configurations)) {
    const dir = writeConfig(t.testdir({ [name]: {} }), files)
    const { problems, warnings, networks, gateway } = await loadConfig(dir, plugins, env)
    t.same([...problems, ...warnings], [], name)
    t.equal(networks.length, 1, name)
    const ports = [gateway?.listen.rpc, gateway?.listen.portal, gateway?.listen.admin].map(address => address?.port)
    t.same(ports, [8080, 8081, 8082], name)
    if (name === 'image') continue
    const pod = objectNamed('Deployment', 'tollgate')
    const graceSeconds =
      name === 'Helm'
        ? values['terminationGracePeriodSeconds']
        : valueAt(pod, ['spec', 'template', 'spec', 'terminationGracePeriodSeconds'])
    const { grace = 0, timeout = 0 } = gateway?.drain ?? {}
    t.ok(Number(graceSeconds) * 1000 > grace + timeout, `${name}: pods may drain`)
  }
})

t.test('an image has the plans of a checkout, and pods have one of them', t => {
  const plansIn = (text = '') => (parse(text) as { readonly plans: Readonly<Record<string, unknown>> }).plans
  const { core, ...others } = plansIn(read('configs/gateway.yaml'))
  t.same(plansIn(read('deploy/docker/gateway.yaml')), { core, ...others })
  t.same(
    [configurations['Kubernetes'], configurations['Helm']].map(files => plansIn(files?.['gateway.yaml'])),
    [{ core }, { core }],
  )
  for (const [name, plan] of Object.entries(others)) t.match(plan, { forwarding: true }, `calls of the plan ${name} may go to a partner`)
  t.end()
})

t.test('pods run with a read-only root as a user of their own, and probes ask the paths of the admin listener', t => {
  const path = ['spec', 'template', 'spec']
  const pod = valueAt(objectNamed('Deployment', 'tollgate'), path)
  t.match(pod, { securityContext: { runAsNonRoot: true } })
  const container = valueAt(pod, ['containers', 0])
  t.match(container, {
    securityContext: { readOnlyRootFilesystem: true },
    livenessProbe: { httpGet: { path: '/livez', port: 'admin' } },
    readinessProbe: { httpGet: { path: '/readyz', port: 'admin' } },
    ports: [
      { name: 'rpc', containerPort: 8080 },
      { name: 'portal', containerPort: 8081 },
      { name: 'admin', containerPort: 8082 },
    ],
  })
  const template = read('deploy/helm/tollgate/templates/deployment.yaml')
  for (const [, probe = ''] of template.matchAll(/httpGet: \{(.*)\},/g)) t.match(probe, 'scheme: {{ $scheme }}')
  for (const probe of ['livenessProbe', 'readinessProbe', 'startupProbe', 'securityContext', 'volumeMounts']) t.match(template, `${probe}:`)
  t.end()
})

t.test('every value that the Helm templates read is in values.yaml, and every one there is read', t => {
  const folder = 'deploy/helm/tollgate/templates'
  const texts = readdirSync(join(rootDir, folder)).map(file => read(`${folder}/${file}`))
  const used = new Set(texts.flatMap(text => Array.from(text.matchAll(/\.Values\.([\w.]+)/g), ([, path = '']) => path)))
  for (const path of used) t.not(valueAt(values, path.split('.')), undefined, path)
  for (const name of Object.keys(values))
    t.ok(
      [...used].some(path => path.split('.')[0] === name),
      `${name} is read`,
    )
  t.end()
})

t.test('the compose file runs two gateways on one Redis that keeps all keys, and passes on variables that networks have', t => {
  const { services } = parse(read('deploy/docker/compose.yaml'), { merge: true }) as {
    readonly services: Readonly<Record<string, unknown>>
  }
  t.same(services['gateway-a'], services['gateway-b'])
  t.match(services['gateway-a'], { read_only: true, environment: { TOLLGATE_STORE: 'redis://redis:6379' } })
  t.match(services['redis'], { command: ['redis-server', '--appendonly', 'yes', '--maxmemory-policy', 'noeviction'] })
  const networks = readdirSync(join(rootDir, 'configs/networks'))
    .map(file => read(`configs/networks/${file}`))
    .join('\n')
  const variables = Object.keys(valueAt(services['gateway-a'], ['environment']) as object).filter(name => name !== 'TOLLGATE_STORE')
  for (const name of variables) t.match(networks, `\${${name}}`)
  t.match(read('deploy/docker/gateway.yaml'), '${TOLLGATE_STORE:-lmdb:/var/lib/tollgate}')
  const gateways = Object.keys(services).filter(each => each.startsWith('gateway'))
  for (const name of gateways) {
    t.equal(read('deploy/proxies/nginx.conf').split(`server ${name}:8080 `).length, 3, 'for calls, and for WebSockets')
    t.match(read('deploy/proxies/Caddyfile'), ` ${name}:8080 `)
    t.match(read('deploy/proxies/haproxy.cfg'), `server ${name} ${name}:8080\n`)
  }
  t.end()
})

t.test('no log of a proxy has the path of a request, or the header X-Api-Key', t => {
  const nginx = read('deploy/proxies/nginx.conf')
  const [, format = ''] = /^log_format tollgate (.*)$/m.exec(nginx) ?? []
  const ofPath = ['$request', '$request_uri', '$uri', '$document_uri', '$http_x_api_key', '$http_authorization']
  t.same(
    format.match(/\$\w+/g)?.filter(variable => ofPath.includes(variable)),
    [],
  )
  t.match(nginx, /^ +access_log \S+ tollgate;$/m)
  t.match(nginx, /^ +error_log \S+ emerg;/m, 'lines of all other levels have the request')
  const caddyLogs = read('deploy/proxies/Caddyfile')
    .split(/^\tlog \{$/m)
    .slice(1)
  t.equal(caddyLogs.length, 2, 'the access log, and the log of errors')
  for (const log of caddyLogs) for (const field of ['request>uri', 'request>headers>X-Api-Key']) t.match(log, `${field} delete`)
  const haproxy = read('deploy/proxies/haproxy.cfg')
  const [, haproxyFormat = ''] = /^ +log-format '(.*)'$/m.exec(haproxy) ?? []
  const variables = haproxyFormat.match(/%(?:\{[^}]*\})?(?:\[[^\]]*\]|\w+)/g) ?? []
  t.ok(variables.length > 5)
  for (const variable of variables) t.notMatch(variable, /%(?:\{.*\})?(?:\[|r$|HU|HP|HQ|hr)/)
  t.notMatch(haproxy, /^ +(?:option httplog|capture )/m)
  t.end()
})

t.test('proxies tell gateways the address of the caller, and nothing that the caller has written in its place', t => {
  const nginx = read('deploy/proxies/nginx.conf')
  t.match(nginx, 'proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;')
  t.match(nginx, 'proxy_set_header Forwarded "";')
  t.notMatch(nginx, /location [^}]*proxy_set_header/, 'one in a location would undo those of the server')
  t.match(read('deploy/proxies/Caddyfile'), /^\t+header_up -Forwarded$/m)
  t.match(read('deploy/proxies/haproxy.cfg'), /^ +option forwardfor\n +http-request del-header Forwarded$/m)
  t.end()
})

t.test('what a proxy itself answers is a JSON-RPC error that pages in browsers may read', t => {
  for (const [file, count] of Object.entries({ 'nginx.conf': 2, Caddyfile: 1, 'haproxy.cfg': 3 })) {
    const text = read(`deploy/proxies/${file}`)
    const bodies = text.match(/\{"jsonrpc".*\}\}/g) ?? []
    t.equal(bodies.length, count, file)
    for (const body of bodies) t.match(JSON.parse(body), { jsonrpc: '2.0', id: null, error: { code: Number, message: String } })
    t.equal(text.match(/Access-Control-Allow-Origin \*/g)?.length, count, file)
  }
  t.end()
})

t.test('the commands of the image and of the systemd unit exist', t => {
  const unit = read('deploy/systemd/tollgate.service')
  const dockerfile = read('deploy/docker/Dockerfile')
  const names = [
    ...Array.from(unit.matchAll(/^Exec\w+=\/usr\/bin\/env tollgate (\w+)/gm), ([, name = '']) => name),
    ...Array.from(dockerfile.matchAll(/CMD \[(?:"tollgate", )?"(\w+)"/g), ([, name = '']) => name),
  ]
  t.same([...new Set(names)].sort(), ['check', 'health', 'start'])
  for (const name of names) t.ok(Object.hasOwn(commandLoaders, name), name)
  const { files } = JSON.parse(read('package.json')) as { readonly files: readonly string[] }
  for (const folder of files.filter(file => file.startsWith('dist/') || file === 'configs')) t.match(dockerfile, `/app/${folder} `, folder)
  t.end()
})

const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0

t.test('systemd finds no fault with the unit', { skip: hasSystemd ? false : 'systemd-analyze is not installed' }, t => {
  const { stderr } = spawnSync('systemd-analyze', ['verify', 'deploy/systemd/tollgate.service'], { cwd: rootDir, encoding: 'utf8' })
  // Other units of the machine, and programs that are not installed here, are not the file's.
  t.same(
    stderr.split('\n').filter(line => line.includes('tollgate.service') && !line.includes('is not executable')),
    [],
  )
  t.end()
})

t.test('health exits with 0 while the gateway should get traffic, and with 1 while it drains or does not answer', async t => {
  let isReady = true
  const options = {
    isReady: () => isReady,
    networks: async () => [],
    metrics: () => [],
    log: openLog('silent'),
    token: undefined,
    hosts: [],
  }
  const app = createAdminApp(options as unknown as AdminOptions) // what /livez and /readyz need
  const server = createServer(app.callback()).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const gateway = (listen: string) => ({ 'gateway.yaml': `store: lmdb:data\nplans: { core: { dailyCredits: 1 } }\nlisten: ${listen}\n` })
  const dir = writeConfig(t.testdir({ open: {} }), gateway(`{ admin: "0.0.0.0:${port}" }`))
  const health = (...args: readonly string[]) => runCommand(healthCommand, [...args, '--config', dir])
  t.same(await health(), { code: 0, out: ['ready'], err: [] })
  isReady = false
  t.same(await health(), { code: 1, out: [], err: ['not ready'] })
  t.match(await health('--live'), { code: 0 })
  server.close()
  server.closeAllConnections()
  t.match(await health(), { code: 1, out: [], err: [/^tollgate: no gateway answers at http:\/\/127.0.0.1:\d+: [a-z]/i] })
  writeConfig(dir, gateway('{ rpc: 127.0.0.1:8080 }'))
  t.match(await health(), { code: 78, err: [/no listen.admin/] })
})
