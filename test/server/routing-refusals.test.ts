import t from '../support/tap.ts'
import { refuseUnknownHost, refuseUnknownPath } from '../../src/server/routing-refusals.ts'

const key = `tg_${'k'.repeat(38)}`

t.test('a 404 for a path names what is wrong with it and the right path, and never the API key', async t => {
  for (const [path, problem] of [
    [`/v3/${key}//`, /two slashes in a row/],
    [`//v3/${key}`, /two slashes in a row/],
    [`/v3//${key}`, /two slashes in a row/],
    [`/v3/mainnet/${key}`, /more after \/v3\/ than the API key; the host names the network/],
    [`/v3/${key}/eth_chainId`, /more after \/v3\/ than the API key/],
    [`/V3/${key}`, /lower case/],
    [`/WS/v3/${key}`, /lower case/],
    [`/rpc/v3/${key}`, /more in front of \/v3; a proxy/],
    [`/${key}`, /version is missing in front of the API key/],
    [`/ws/${key}`, /version is missing in front of the API key/],
    [`/v2/${key}`, /version v2 is not served; the version served is v3/],
    [`/ws/v4/${key}`, /version v4 is not served; the version served is v3/],
    ['/', /the version served is v3/],
    ['/rpc', /the version served is v3/],
  ] as const) {
    const { message, code } = refuseUnknownPath(path).error
    t.equal(code, -32090)
    t.match(message, /^not found: .*: POST to \/v3\/<API_KEY>, or open a WebSocket at \/ws\/v3\/<API_KEY>$/, path)
    t.match(message, problem, path)
    t.notMatch(message, key, path)
  }
})

t.test('a 404 for a host names it, as a proxy may have changed it, unless it is no host name', async t => {
  t.match(refuseUnknownHost('foo.example.org').error.message, /^not found: .* the host foo\.example\.org .*keep the Host header/)
  t.match(refuseUnknownHost('::1').error.message, /the host ::1 /)
  for (const host of ['', key.toLowerCase(), '<script>', 'a'.repeat(254)])
    t.match(refuseUnknownHost(host).error.message, /no network is served on this host /, host)
})
