import { absentFile } from '../config-fixture.ts'
import type { Mistake } from './mistake.ts'

const withPortal = [['  admin: 127.0.0.1:23502', '  admin: 127.0.0.1:23502\n  portal: 127.0.0.1:23501']] as const

export const gatewayMistakes: readonly Mistake[] = [
  {
    mistake: 'a typo in a key',
    gateway: [['listen:', 'listn:']],
    answers: ['gateway.yaml:1:1: unknown key `listn` -> did you mean `listen`?'],
  },
  {
    mistake: 'a line that is indented more than its map',
    gateway: [['memory: 64MiB', ' memory: 64MiB']],
    answers: ['gateway.yaml:5:2: the indentation of this line differs from that of the other entries of its map or list'],
  },
  {
    mistake: 'an empty gateway.yaml',
    files: { 'gateway.yaml': '# nothing here yet\n' },
    answers: [
      'gateway.yaml:1:1: the file is empty -> it requires `store` and `plans`: copy the gateway.yaml that ships with the gateway, or that `tollgate init --config NEW_DIR` writes',
    ],
  },
  {
    mistake: 'networks in gateway.yaml',
    gateway: [['store:', 'networks: [arb]\nchainId: 42161\nstore:']],
    answers: [
      'gateway.yaml:4:1: unknown key `networks` -> `networks` belongs in networks/NAME.yaml',
      'gateway.yaml:5:1: unknown key `chainId` -> `chainId` belongs in networks/NAME.yaml',
    ],
  },
  {
    mistake: 'a port that is not a number',
    gateway: [['rpc: 127.0.0.1:23500', 'rpc: 127.0.0.1:http']],
    answers: ['gateway.yaml:2:8: listen.rpc must be host:port, not "127.0.0.1:http" -> for example 127.0.0.1:8080, or [::1]:8080'],
  },
  {
    mistake: 'a port that is too big',
    gateway: [['rpc: 127.0.0.1:23500', 'rpc: 127.0.0.1:99999']],
    answers: ['gateway.yaml:2:8: listen.rpc must be host:port, not "127.0.0.1:99999" -> a port is at most 65535'],
  },
  {
    mistake: 'only a port',
    gateway: [['rpc: 127.0.0.1:23500', 'rpc: 23500']],
    answers: ['gateway.yaml:2:8: listen.rpc must be host:port, not 23500 -> did you mean `127.0.0.1:23500`?'],
  },
  {
    mistake: 'one port twice',
    gateway: [['23502', '23500']],
    answers: ['gateway.yaml:3:10: listen.admin has the same address as listen.rpc'],
  },
  {
    mistake: 'a store with another scheme',
    gateway: [['lmdb:../data', 'postgres://localhost/tollgate']],
    answers: ['gateway.yaml:4:8: store must be lmdb:PATH or redis://HOST:PORT -> postgres is not supported'],
  },
  { mistake: 'a Redis without port', gateway: [['lmdb:../data', 'redis://127.0.0.1']], answers: [] },
  {
    mistake: 'a Redis that does not answer',
    gateway: [['lmdb:../data', 'redis://127.0.0.1:1']],
    online: true,
    answers: [
      ...['16:29: failover: own', '17:32: failover: second'].map(
        upstream =>
          `networks/arb.yaml:${upstream} does not answer, and no other upstream of the network does: connection refused (ECONNREFUSED)`,
      ),
      'cannot use redis at 127.0.0.1:1: connect ECONNREFUSED 127.0.0.1:1; start it, or correct its address',
    ],
  },
  {
    mistake: 'a store as a plain path',
    gateway: [['lmdb:../data', '../data']],
    answers: ['gateway.yaml:4:8: store must be lmdb:PATH or redis://HOST:PORT -> for example lmdb:../data'],
  },
  {
    mistake: 'a store path that is a file',
    gateway: [['lmdb:../data', 'lmdb:data']],
    files: { data: 'x' },
    answers: ['gateway.yaml:4:8: the path of the store is a file, not a directory -> lmdb:PATH names a directory'],
  },
  {
    mistake: 'an access log in a folder that does not exist',
    gateway: [['workers: 1', 'workers: 1\naccessLog: { file: logs/access.log }']],
    answers: ['gateway.yaml:7:20: the directory of accessLog.file does not exist -> create the directory, or correct the path'],
  },
  {
    mistake: 'an access log that is a folder',
    gateway: [['workers: 1', 'workers: 1\naccessLog: { file: networks }']],
    answers: ['gateway.yaml:7:20: accessLog.file is a directory, not a file -> add the name of a file'],
  },
  {
    mistake: 'an access log at an unset variable',
    gateway: [['workers: 1', 'workers: 1\naccessLog: { file: "${LOGS}/access.log" }']],
    answers: ['gateway.yaml:7:20: the environment variable LOGS is not set -> export LOGS=…, or write ${LOGS:-default}'],
  },
  {
    mistake: 'an accent of the brand that cannot be read on white',
    gateway: [...withPortal, ['workers: 1', 'workers: 1\nportal: { brand: { accent: "#ffb000" } }']],
    answers: [
      'gateway.yaml:8:28: portal.brand.accent has a contrast of 1.8 to white, less than the 4.5 of WCAG AA -> the nearest darker color is "#9e6d00"',
    ],
  },
  {
    mistake: 'a logo that is not there',
    gateway: [...withPortal, ['workers: 1', 'workers: 1\nportal: { brand: { logo: logo.svg } }']],
    answers: ['gateway.yaml:8:26: portal.brand.logo is no file -> the path is relative to gateway.yaml'],
  },
  {
    mistake: 'a logo that browsers do not show',
    gateway: [...withPortal, ['workers: 1', 'workers: 1\nportal: { brand: { logo: logo.pdf } }']],
    files: { 'logo.pdf': 'x' },
    answers: ['gateway.yaml:8:26: portal.brand.logo must be an SVG or PNG file -> browsers show both at any size'],
  },
  {
    mistake: 'a logo that is too large',
    gateway: [...withPortal, ['workers: 1', 'workers: 1\nportal: { brand: { logo: logo.png } }']],
    files: { 'logo.png': 'x'.repeat(65_537) },
    answers: ['gateway.yaml:8:26: portal.brand.logo has 65537 bytes, more than 65536 -> each page loads it: make it smaller'],
  },
  {
    mistake: 'negative credits',
    gateway: [['3000000', '-5']],
    answers: ['gateway.yaml:8:25: plans.core.dailyCredits must be an integer from 1 to 2^53-1, not -5'],
  },
  {
    mistake: 'credits with a suffix',
    gateway: [['3000000', '3M']],
    answers: ['gateway.yaml:8:25: plans.core.dailyCredits must be an integer from 1 to 2^53-1, not "3M" -> write 3000000'],
  },
  {
    mistake: 'credits with underscores',
    gateway: [['3000000', '3_000_000']],
    answers: ['gateway.yaml:8:25: plans.core.dailyCredits must be an integer from 1 to 2^53-1, not "3_000_000" -> write 3000000'],
  },
  {
    mistake: 'dots as separators of thousands',
    gateway: [['3000000', '3.000.000']],
    answers: ['gateway.yaml:8:25: plans.core.dailyCredits must be an integer from 1 to 2^53-1, not "3.000.000" -> write 3000000'],
  },
  {
    mistake: 'a dot as a separator of thousands: YAML reads it as 300',
    gateway: [['3000000', '300.000']],
    answers: ['gateway.yaml:8:25: 300.000 is the number 300 -> write 300000, or 300'],
  },
  {
    mistake: 'a comma as a separator of thousands',
    gateway: [['3000000', '300,000']],
    answers: ['gateway.yaml:8:29: unknown key `000` of plans.core -> write an integer without separators of thousands, such as 3000000'],
  },
  {
    mistake: 'a typo in a plan',
    gateway: [['dailyCredits', 'dailyCredit']],
    answers: ['gateway.yaml:8:11: unknown key `dailyCredit` of plans.core -> did you mean `dailyCredits`?'],
  },
  {
    mistake: 'workers as a word',
    gateway: [['workers: 1', 'workers: two']],
    answers: ['gateway.yaml:6:10: workers must be auto, or an integer, at least 1, not "two"'],
  },
  {
    mistake: 'no workers',
    gateway: [['workers: 1', 'workers: 0']],
    answers: ['gateway.yaml:6:10: workers must be auto, or an integer, at least 1, not 0'],
  },
  {
    mistake: 'almost no memory',
    gateway: [['64MiB', '1KiB']],
    answers: [
      'gateway.yaml:5:9: memory is usually 1MiB to 256GiB, not "1KiB" -> Memory of all caches together, divided among networks and workers.',
    ],
  },
  {
    mistake: 'more memory than any machine has',
    gateway: [['64MiB', '900TiB']],
    answers: [
      'gateway.yaml:5:9: memory is usually 1MiB to 256GiB, not "900TiB" -> Memory of all caches together, divided among networks and workers.',
    ],
  },
  {
    mistake: 'no plans',
    gateway: [['plans:\n  core: { dailyCredits: 3000000 }\n', '']],
    answers: ['gateway.yaml:1:1: the file requires `plans`: a map -> The plans that accounts may have, by name.'],
  },
  {
    mistake: 'the PROXY protocol without proxies',
    gateway: [['  admin:', '  proxyProtocol: true\n  admin:']],
    answers: ['gateway.yaml:3:18: listen.proxyProtocol requires listen.trustedProxies -> name the proxies, for example [10.0.0.0/8]'],
  },
  {
    mistake: 'a burst without a rate',
    gateway: [['dailyCredits: 3000000', 'dailyCredits: 3000000, burst: 5']],
    answers: ['gateway.yaml:8:34: plans.core.burst requires plans.core.rate -> for example 100/s'],
  },
  {
    mistake: 'an offer of a plan that no dashboard shows',
    gateway: [['dailyCredits: 3000000', 'dailyCredits: 3000000, offered: true']],
    answers: ['gateway.yaml:8:43: plans.core.offered has no effect without listen.portal -> add listen.portal, for example 127.0.0.1:8081'],
  },
  {
    mistake: 'a price that no dashboard shows',
    gateway: [['dailyCredits: 3000000', 'dailyCredits: 3000000, price: $49 a month, offered: false']],
    answers: ['gateway.yaml:8:34: plans.core.price has no effect without listen.portal -> add listen.portal, for example 127.0.0.1:8081'],
  },
  {
    mistake: 'a page of payment that is none',
    gateway: [['plans:', 'portal: { billingUrl: billing.example.org }\nplans:']],
    answers: [
      'gateway.yaml:7:11: portal.billingUrl has no effect without listen.portal -> add listen.portal, for example 127.0.0.1:8081',
      'gateway.yaml:7:23: portal.billingUrl must be a URL that starts with https:// or http://, not "billing.example.org" -> for example https://billing.example.org/?account={account}',
    ],
  },
  {
    mistake: 'an address in the URL of the dashboard that is none',
    gateway: [['plans:', 'portal: { url: "http://1.2.3.999" }\nplans:']],
    answers: [
      'gateway.yaml:7:11: portal.url has no effect without listen.portal -> add listen.portal, for example 127.0.0.1:8081',
      'gateway.yaml:7:16: portal.url must be a URL such as https://dashboard.example.org, not "http://1.2.3.999" -> the URL has no valid host or port',
    ],
  },
  {
    mistake: 'a rate in a plan that no network applies',
    gateway: [['dailyCredits: 3000000', 'dailyCredits: 3000000, rate: 100/s']],
    answers: [
      'gateway.yaml:8:34: plans.core.rate has no effect in the network arb -> add a plugin that limits rates, such as rate-limit, to the pipeline',
    ],
  },
  {
    mistake: 'none: the pipeline limits rates',
    gateway: [['dailyCredits: 3000000', 'dailyCredits: 3000000, rate: 100/s']],
    network: [['  - credits: {}', '  - rate-limit: {}\n  - credits: {}']],
    answers: [],
  },
  {
    mistake: 'no gateway.yaml',
    files: { 'gateway.yaml': absentFile },
    answers: [
      'gateway.yaml:1:1: no such file -> it requires `store` and `plans`: copy the gateway.yaml that ships with the gateway, or that `tollgate init --config NEW_DIR` writes',
    ],
  },
  {
    mistake: 'an address as a URL',
    gateway: [['127.0.0.1:23500', 'http://127.0.0.1:23500/']],
    answers: ['gateway.yaml:2:8: listen.rpc must be host:port, not "http://127.0.0.1:23500/" -> did you mean `127.0.0.1:23500`?'],
  },
  {
    mistake: 'an IPv6 address without brackets',
    gateway: [['127.0.0.1:23500', '::1:23500']],
    answers: ['gateway.yaml:2:8: listen.rpc must be host:port, not "::1:23500" -> did you mean `[::1]:23500`?'],
  },
  {
    mistake: 'all addresses as a star',
    gateway: [['127.0.0.1:23500', '"*:23500"']],
    answers: ['gateway.yaml:2:8: listen.rpc must be host:port, not "*:23500" -> did you mean `0.0.0.0:23500`?'],
  },
  {
    mistake: 'all addresses as a star without quotes',
    gateway: [['127.0.0.1:23500', '*:23500']],
    answers: ['gateway.yaml:2:8: this alias has no anchor above it -> quote a string that begins with *'],
  },
  {
    mistake: 'a size with a fraction',
    gateway: [['64MiB', '1.5GiB']],
    answers: ['gateway.yaml:5:9: memory must be a size such as 64KiB, 512MiB or 2GiB, not "1.5GiB" -> did you mean `1536MiB`?'],
  },
  {
    mistake: 'plans as a list',
    gateway: [['  core: { dailyCredits: 3000000 }', '  - { name: core, dailyCredits: 3000000 }']],
    answers: ['gateway.yaml:7:1: plans must be a map, not a list of 1 -> write entries as `NAME: VALUE`, without dashes'],
  },
  {
    mistake: 'a store as a map',
    gateway: [['lmdb:../data', '{ type: redis, url: x }']],
    answers: ['gateway.yaml:4:8: store must be lmdb:PATH or redis://HOST:PORT -> for example lmdb:../data'],
  },
  {
    mistake: 'a key of listen outside of it',
    gateway: [['store:', 'trustedProxies: [10.0.0.0/8]\nstore:']],
    answers: ['gateway.yaml:4:1: unknown key `trustedProxies` -> `trustedProxies` belongs in `listen`'],
  },
]
